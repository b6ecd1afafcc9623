// Holds a lock until a line comes. This program runs in Node, with navlock/register, and in navlock-js-run.

const { runtime } = globalThis;
if (!runtime) await import('../../js/register.mjs');

const print = (line) => console.log(line);

/** The next line of the standard input. */
const line = runtime
  ? () => new Promise((resolve) => {
    const stop = runtime.readLines((text) => resolve(stop() ?? text));
  })
  : async () => {
    const { once } = await import('node:events');
    const { default: process } = await import('node:process');
    await once(process.stdin, 'data');
    process.stdin.destroy();
  };

await navigator.locks.request('db', async () => {
  print('granted');
  await line();
  print('released');
});
