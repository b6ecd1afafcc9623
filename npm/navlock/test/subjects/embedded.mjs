// Runs each test in a process of navlock-js-run. Cargo builds navlock-js-run and the broker.

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import { openHosts, outcome } from './runtime.mjs';

const REPOSITORY = fileURLToPath(new URL('../../../../', import.meta.url));

/** How many times as long as in a browser a test may take, in an interpreter that is not optimised. */
const SLOWDOWN = 12;

/** How much longer than its test a process may take, to start and to report a missed deadline. */
const GRACE = 10_000;

let executables;

/** @returns {Promise<import('./index.mjs').Session>} */
export async function openEmbedded({ engine, reach }) {
  executables ??= build();
  const command = [executables['navlock-js-run'], '--engine', engine];
  const { execute, close } = openHosts({ realm: 'embedded', command, reach, program: executables.navlock });
  const { output } = await execute('embedded-version.mjs', {}, GRACE);
  return {
    version: output.trim(),
    runFile: (job, ms) => execute('embedded-wpt.mjs', job, SLOWDOWN * ms),
    async run(test) {
      const deadline = SLOWDOWN * test.deadline + GRACE;
      return outcome(await execute('embedded-test.mjs', { test: test.name, slowdown: SLOWDOWN }, deadline));
    },
    close,
  };
}

/**
 * Has cargo build the programs as `cargo test --workspace --all-features` does: with other features, cargo would
 * build Boa a second time, which takes minutes. The programs are built with the tests of their packages.
 *
 * @returns {Record<string, string>} the programs, by name
 */
export function build() {
  const args = ['test', '--quiet', '--workspace', '--all-features', '--no-run', '--test', 'suite', '--test', 'e2e', '--message-format', 'json'];
  const output = execFileSync('cargo', args, { cwd: REPOSITORY, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28 });
  const built = output.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  const programs = built.filter(({ executable, target }) => executable && target.kind.includes('bin'));
  return Object.fromEntries(programs.map(({ target, executable }) => [target.name, executable]));
}
