// Runs programs in processes of their own, for tests that depend on how a process was started.

import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

export const navlock = createRequire(import.meta.url).resolve('navlock');

/** An environment without the variables that would decide a test. */
function clean(env) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('NAVLOCK_') && name !== 'NODE_OPTIONS');
  return { ...Object.fromEntries(inherited), ...env };
}

/** Runs a program to its end. @returns {Promise<string>} what it printed */
export async function run([file, ...words], { env = {}, cwd } = {}) {
  const { stdout } = await promisify(execFile)(file, words, { env: clean(env), cwd, timeout: 20_000 });
  return stdout;
}

/**
 * Runs a function in a process of its own, of any runtime.
 *
 * @param {string[]} words  of ../runtimes.mjs
 * @param {(navlock: object, ...args: any[]) => unknown} call  sent as its source
 * @returns {Promise<any>} the result of the function, by way of JSON
 */
export async function evaluateOn([file, ...words], env, call, ...args) {
  const source = `(async () => JSON.stringify(await (${call})(require(${JSON.stringify(navlock)}), ...${JSON.stringify(args)})))().then((line) => { console.log(line); process.exit(0); })`;
  const flags = words.filter((word) => word.startsWith('--') && !/^--(allow-all|no-prompt|quiet)$/.test(word));
  const before = path.basename(file) === 'deno' ? ['eval', '--ext=cjs', ...flags] : [...flags, '-e'];
  return JSON.parse((await run([file, ...before, source], { env })).trim().split('\n').pop());
}

/**
 * Runs a function in a process of its own.
 *
 * @param {(navlock: object, ...args: any[]) => unknown} call  sent as its source
 * @returns {Promise<any>} the result of the function, by way of JSON
 */
export async function evaluate(env, call, ...args) {
  const source = `(async () => JSON.stringify(await (${call})(require(${JSON.stringify(navlock)}), ...${JSON.stringify(args)})))().then(console.log)`;
  return JSON.parse(await run([process.execPath, '-e', source], { env }));
}
