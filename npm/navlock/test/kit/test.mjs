// Defines and runs tests. The files of the suite call `test`. Hosts find tests by name and run them with `runTest`.

import { describe } from './assert.mjs';
import { withDeadline } from './wait.mjs';

/**
 * @typedef {object} About
 * @property {number[]} rules  the rules of CONFORMANCE.md that the test shows, the main one first
 * @property {string} spec     the section: an anchor of the Web Locks specification, or a whole URL
 * @property {string[]} [needs]  what a subject must offer for the test to make sense there; see
 *                               subjects/index.mjs
 * @property {number} [deadline]  in ms, after which the test has failed
 *
 * @typedef {About & { name: string, run: (context: object) => unknown }} Test
 */

/** @type {Map<string, Test>} all tests, in the order of their files */
export const tests = new Map();

/** Long enough for everything that works, and short enough for a suite in which many tests hang. */
const DEADLINE = 5_000;

/**
 * @param {string} name   a sentence about behaviour
 * @param {About} about
 * @param {(context: object) => unknown} run  fails by throwing
 */
export function test(name, about, run) {
  if (tests.has(name)) throw new Error(`two tests are called: ${name}`);
  if (!about.rules?.length || !about.spec) throw new Error(`no rule or no section for: ${name}`);
  tests.set(name, { needs: [], deadline: DEADLINE, ...about, name, run });
}

/**
 * @param {Test} test
 * @param {object} context  what the test is given
 * @returns {Promise<{ passed: boolean, reason?: string }>}
 */
export async function runTest(test, context) {
  try {
    await withDeadline(test.run(context), test.deadline);
    return { passed: true };
  } catch (error) {
    return { passed: false, reason: describe(error) };
  }
}
