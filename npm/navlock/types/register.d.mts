import './register.cjs';
