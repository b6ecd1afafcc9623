// Runs the suite on one subject. run.mjs and table.mjs show the results.

import { tests } from './suite/index.mjs';
import { subjects } from './subjects/index.mjs';

/**
 * @typedef {'passed' | 'failed' | 'not observable'} Verdict
 * @typedef {{ test: import('./kit/test.mjs').Test, verdict: Verdict, reason?: string }} Result
 */

/**
 * @param {string} name  of a subject
 * @param {{ rule?: number, words?: string, jobs?: number, onResult?: (result: Result) => void }} options
 * @returns {Promise<{ title: string, version: string, results: Result[] }>}
 */
export async function conformance(name, { rule, words = '', jobs = 2, onResult = () => {} } = {}) {
  const subject = subjects[name];
  if (!subject) throw new Error(`there is no subject ${name}; there are ${Object.keys(subjects).join(', ')}`);
  const chosen = [...tests.values()]
    .filter((test) => rule === undefined || test.rules.includes(rule))
    .filter((test) => test.name.includes(words));
  const session = await subject.open();
  try {
    const results = new Array(chosen.length);
    const queue = chosen.entries();
    const work = async () => {
      for (const [index, test] of queue) {
        results[index] = await judge(subject, session, test);
        onResult(results[index]);
      }
    };
    await Promise.all(Array.from({ length: jobs }, work));
    return { title: subject.title, version: session.version, results };
  } finally {
    await session.close();
  }
}

async function judge(subject, session, test) {
  const missing = test.needs.find((need) => !subject.offers.includes(need));
  if (missing) return { test, verdict: 'not observable', reason: `needs ${missing}` };
  const { passed, reason } = await session.run(test);
  return passed ? { test, verdict: 'passed' } : { test, verdict: 'failed', reason };
}
