import './test.cjs';
