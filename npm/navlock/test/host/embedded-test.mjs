// Runs one test in navlock-js-run and prints its outcome, or lists the tests.

import { createContext } from '../kit/context.mjs';
import { runTest, tests } from '../kit/test.mjs';
import { processSpawner, programRunner, workerSpawner } from './embedded-outside.mjs';

const { runtime } = globalThis;

/** The mark by which subjects/runtime.mjs finds the outcome in the output. */
const MARK = '@outcome ';

const [word] = runtime.arguments;
if (word === '--list') await list();
else await run(JSON.parse(word));

/**
 * @param {{ realm: string, test: string, file?: string, slowdown?: number }} job  `file` is the
 *     file of the test, so that no other has to be read; `slowdown` says how many times as long the test may take
 */
async function run({ realm, test, file = 'index', slowdown = 1 }) {
  const { openRealm } = await import(`../realms/${realm}.mjs`);
  await import(`../suite/${file}.mjs`);
  const platform = {
    spawnWorker: workerSpawner(realm),
    spawnProcess: processSpawner(realm),
    runProgram: programRunner(realm),
    memory: runtime.memory,
  };
  const about = tests.get(test);
  const outcome = await runTest({ ...about, deadline: slowdown * about.deadline }, createContext(await openRealm(), platform));
  console.log(`\n${MARK}${JSON.stringify(outcome)}`);
  runtime.exit(0);
}

/** Prints all tests, one a line, each with its file. */
async function list() {
  const folder = runtime.script.replace(/host\/[^/]*$/, 'suite');
  const files = [...runtime.readFile(`${folder}/index.mjs`).matchAll(/^import '\.\/(.*)\.mjs';$/gm)];
  for (const [, file] of files) {
    const before = new Set(tests.keys());
    await import(`../suite/${file}.mjs`);
    for (const { name, needs, deadline } of [...tests.values()].filter(({ name }) => !before.has(name))) {
      console.log(JSON.stringify({ file, name, needs, deadline }));
    }
  }
}
