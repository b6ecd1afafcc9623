// Counts to five while it holds a lock that all programs of the user share. Run it in two terminals:
//
//   cargo run -p navlock-js-run -- --engine boa crates/js-run/examples/counter.mjs
//   cargo run -p navlock-js-run -- --engine quickjs crates/js-run/examples/counter.mjs
//
// The second program waits until the first one is done. `navlock run counter -- sh` and Node processes with
// `navlock/register` wait for these programs, and these programs wait for them.

const pause = () => new Promise((resolve) => setTimeout(resolve, 1_000));

console.log(`${runtime.engine}: waiting`);
await navigator.locks.request('counter', async (lock) => {
  for (let count = 1; count <= 5; count++) {
    console.log(`${runtime.engine}: ${count} under ${lock.name}`);
    await pause();
  }
});
console.log(`${runtime.engine}: done`);
