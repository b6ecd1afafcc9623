// Run by jest, in the environment that it is told.

const navlock = require('navlock');

const { checks } = require('./checks.cjs');

for (const [name, check] of Object.entries(checks)) test(name, () => check(navlock));
