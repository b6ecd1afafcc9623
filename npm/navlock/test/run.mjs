// The conformance suite: node test/run.mjs --subject node,deno,chromium [--rule N] [--test WORDS]
// [--jobs N] [--json] [--verbose]. Exits with 1 if a test fails.

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
  },
});

if (!values.subject) {
  console.error(`which subject? --subject ${Object.keys(subjects).join(',')}`);
  process.exit(2);
}

let failed = false;
const reports = {};
for (const name of values.subject.split(',')) {
  const { title, version, results } = await conformance(name, {
    rule: values.rule && Number(values.rule),
    words: values.test,
    jobs: Number(values.jobs),
  });
  failed ||= results.some(({ verdict }) => verdict === 'failed');
  if (values.json) {
    reports[name] = { title, version, tests: results.map(({ test, ...rest }) => ({ name: test.name, rules: test.rules, spec: test.spec, ...rest })) };
  } else {
    print(title, version, results);
  }
}
if (values.json) console.log(JSON.stringify(reports, null, 2));
process.exitCode = failed ? 1 : 0;

function print(title, version, results) {
  const count = (wanted) => results.filter(({ verdict }) => verdict === wanted).length;
  console.log(`\n${title} ${version}`);
  for (const { test, verdict, reason } of results) {
    if (verdict === 'failed') console.log(`  FAILED  ${test.rules.join(', ')}: ${test.name}\n          ${reason}\n          ${section(test.spec)}`);
    else if (values.verbose) console.log(`  ${verdict}  ${test.rules.join(', ')}: ${test.name}${reason ? ` (${reason})` : ''}`);
  }
  console.log(`  ${count('passed')} passed, ${count('failed')} failed, ${count('not observable')} not observable`);
}

function section(spec) {
  return spec.startsWith('#') ? `https://w3c.github.io/web-locks/${spec}` : spec;
}
