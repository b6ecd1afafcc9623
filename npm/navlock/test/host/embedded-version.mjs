// Prints the version of the engine.

const { runtime } = globalThis;
console.log(runtime.engine.match(/[\d.]+\d/)[0]);
