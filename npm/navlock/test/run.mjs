// Runs the conformance suite: node test/run.mjs --subject native,navlock [--rule N] [--test WORDS] [--jobs N]
// [--json] [--verbose] [--update].
//
// native-expectations.json lists the tests that other implementations are known to fail, always or sometimes. The
// exit code is 1 if another test fails, or if a test passes that is known to fail always. With --update the list is
// written anew for the subjects of the run.

import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { parseArgs } from 'node:util';

import { conformance } from './conformance.mjs';
import { subjects } from './subjects/index.mjs';

const { values } = parseArgs({
  options: {
    subject: { type: 'string' },
    rule: { type: 'string' },
    test: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
    update: { type: 'boolean', default: false },
  },
});

if (!values.subject) {
  console.error(`which subject? --subject ${Object.keys(subjects).join(',')}`);
  process.exit(2);
}

const EXPECTATIONS = new URL('native-expectations.json', import.meta.url);
const embedded = JSON.parse(readFileSync(new URL('subjects/embedded.json', import.meta.url), 'utf8'));
const expectations = JSON.parse(readFileSync(EXPECTATIONS, 'utf8'));
let failed = false;
const reports = {};
for (const name of values.subject.split(',').flatMap(expand)) {
  const { title, version, results } = await conformance(name, {
    rule: values.rule && Number(values.rule),
    words: values.test,
    jobs: Number(values.jobs),
  });
  const known = new Set(subjects[name].isEmbedded ? Object.keys(embedded[name.replace('-machine', '')].expected) : expectations[name]);
  if (values.update && !subjects[name].isEmbedded) {
    const failing = results.filter(({ test, verdict }) => verdict === 'failed' && !expectations.sometimes[name]?.includes(test.name));
    if (failing.length > 0) expectations[name] = failing.map(({ test }) => test.name);
    else delete expectations[name];
  }
  const unsure = new Set(expectations.sometimes[name]);
  const isSurprise = ({ test, verdict }) => !unsure.has(test.name) && (verdict === 'failed') !== known.has(test.name);
  const surprises = [];
  for (const result of results.filter(isSurprise)) {
    // Other implementations may fail by a rare order of events, so the test runs again. Ours must pass in any order.
    const again = isOurs(name) ? [] : (await conformance(name, { words: result.test.name })).results;
    if (!again.some((other) => other.test === result.test && !isSurprise(other))) surprises.push(result);
  }
  failed ||= surprises.length > 0;
  if (values.json) {
    reports[name] = { title, version, tests: results.map(({ test, ...rest }) => ({ name: test.name, rules: test.rules, spec: test.spec, ...rest })) };
  } else {
    print(title, version, results, new Set(surprises));
  }
}
if (values.json) console.log(JSON.stringify(reports, null, 2));
if (values.update) writeFileSync(EXPECTATIONS, `${JSON.stringify(expectations, null, 2)}\n`);
process.exitCode = failed && !values.update ? 1 : 0;

function isOurs(name) {
  return ['navlock-', 'one-face-', 'wine-'].some((start) => name.startsWith(start)) || Boolean(subjects[name].isEmbedded);
}

/**
 * The subjects that a word means. `navlock`: the package in every runtime. `wine`: the package for Windows.
 * `one-face`: what `cargo xtask bench faces` measures beside the package. `embedded`: navlock in engines embedded in
 * Rust. `native`: all others.
 */
function expand(word) {
  const names = Object.keys(subjects);
  if (['navlock', 'one-face', 'wine'].includes(word)) return names.filter((name) => name.startsWith(`${word}-`));
  if (word === 'embedded') return names.filter((name) => subjects[name].isEmbedded);
  if (word !== 'native') return [word];
  return names.filter((name) => !isOurs(name)).filter((name) => {
    const missing = subjects[name].missing?.();
    if (missing) console.log(`\n${subjects[name].title}: left out, for ${missing}`);
    return !missing;
  });
}

function print(title, version, results, surprises) {
  const count = (wanted) => results.filter(wanted).length;
  console.log(`\n${title} ${version}`);
  for (const result of results) {
    const { test, verdict, reason } = result;
    if (surprises.has(result)) {
      const what = verdict === 'failed' ? reason : `${verdict}, though it is expected to fail`;
      console.log(`  FAILED  ${test.rules.join(', ')}: ${test.name}\n          ${what}\n          ${section(test.spec)}`);
    } else if (values.verbose) {
      console.log(`  ${verdict}  ${test.rules.join(', ')}: ${test.name}${reason ? ` (${reason})` : ''}`);
    }
  }
  const asExpected = count((result) => result.verdict === 'failed' && !surprises.has(result));
  const counts = [
    `${count(({ verdict }) => verdict === 'passed')} passed`,
    ...(asExpected > 0 ? [`${asExpected} failed as expected`] : []),
    `${surprises.size} not as expected`,
    `${count(({ verdict }) => verdict === 'not observable')} not observable`,
  ];
  console.log(`  ${counts.join(', ')}`);
}

function section(spec) {
  return spec.startsWith('#') ? `https://w3c.github.io/web-locks/${spec}` : spec;
}
