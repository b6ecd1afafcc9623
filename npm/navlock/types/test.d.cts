// A setup module: there is nothing to import from it but what it installs.

import './register.cjs';
