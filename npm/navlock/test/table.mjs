// Writes what the suite says of each rule and implementation into CONFORMANCE.md, between its
// markers: node test/table.mjs [--subject navlock-node+navlock-node-machine,node] [--from FILE]. What
// is joined by + has one column. FILE is what run.mjs prints with --json; without it the suite is run.

import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { parseArgs } from 'node:util';

import { conformance } from './conformance.mjs';
import { rules } from './rules.mjs';

const PAGE = new URL('../../../CONFORMANCE.md', import.meta.url);
const [START, END] = ['<!-- conformance:js -->', '<!-- /conformance:js -->'];

/** Ours in each runtime and engine, within a process and through the broker; then the others. */
const OURS = ['navlock-node', 'navlock-node20', 'navlock-deno', 'navlock-bun', 'boa', 'quickjs'];
const ALL = [...OURS.map((name) => `${name}+${name}-machine`), 'node', 'deno', 'chromium'].join();

const { values } = parseArgs({
  options: {
    subject: { type: 'string', default: ALL },
    from: { type: 'string' },
  },
});

const names = values.subject.split(',');
const reports = values.from ? fromFile(values.from) : await fromRuns();
const page = readFileSync(PAGE, 'utf8');
const [before, after] = [page.indexOf(START), page.indexOf(END)];
if (before < 0 || after < before) throw new Error(`CONFORMANCE.md has no ${START} … ${END}`);
writeFileSync(PAGE, page.slice(0, before) + [START, ...table(reports), ''].join('\n') + page.slice(after));

/** @typedef {{ heading: string, tests: { name: string, rule: number, verdict: string, reason?: string }[] }} Report */

function fromFile(file) {
  const read = JSON.parse(readFileSync(file, 'utf8'));
  return names.map((name) => joined(name, name.split('+').map((one) => {
    const { title, version, tests } = read[one];
    return { title, version, tests: tests.map(({ rules: [rule], ...rest }) => ({ rule, ...rest })) };
  })));
}

async function fromRuns() {
  const reports = [];
  for (const name of names) {
    const parts = [];
    for (const one of name.split('+')) {
      console.error(`running the suite on ${one}`);
      const { title, version, results } = await conformance(one);
      parts.push({ title, version, tests: results.map(({ test, ...rest }) => ({ name: test.name, rule: test.rules[0], ...rest })) });
    }
    reports.push(joined(name, parts));
  }
  return reports;
}

/** @returns {Report} */
function joined(name, parts) {
  const [{ title, version }] = parts;
  // The reach is no part of a title that is for both.
  const heading = parts.length === 1 ? `${title} ${version}` : `${title.replace(/, reach .*/, '')} ${version}`;
  return { heading, tests: parts.flatMap(({ tests }) => tests) };
}

/** @param {Report[]} reports */
function table(reports) {
  const row = (cells) => `| ${cells.join(' | ')} |`;
  return [
    row(['rule', 'in short', ...reports.map(({ heading }) => heading)]),
    row(['---', '---', ...reports.map(() => '---')]),
    ...Object.entries(rules).map(([rule, short]) => row([rule, short, ...reports.map((report) => cell(report, Number(rule)))])),
    '',
    ...reports.flatMap(broken),
    `Made with \`npm run conformance:table\` in \`npm/navlock\`: ${new Date().toISOString().slice(0, 10)}, `
      + `${process.platform} ${process.arch}.`,
  ];
}

/** A test counts for the first of its rules: the others are what it needs as well. */
function cell({ tests }, rule) {
  const observed = tests.filter((test) => test.rule === rule && test.verdict !== 'not observable');
  const failed = observed.filter(({ verdict }) => verdict === 'failed');
  if (observed.length === 0) return '–';
  return failed.length === 0 ? 'passes' : `**breaks** ${failed.length} of ${observed.length}`;
}

function broken({ heading, tests }) {
  const failed = tests.filter(({ verdict }) => verdict === 'failed');
  if (failed.length === 0) return [];
  return [
    `<details><summary>${heading}: the ${failed.length} tests that fail, of ${tests.filter(({ verdict }) => verdict !== 'not observable').length}</summary>`,
    '',
    '| rule | test | what was seen |',
    '| --- | --- | --- |',
    ...failed.map(({ rule, name, reason }) => `| ${rule} | ${name} | ${inline(reason)} |`),
    '',
    '</details>',
    '',
  ];
}

function inline(text) {
  const short = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  // Process ids change from run to run, and say nothing.
  return `\`${short.replace(/node-\d+-\d+/, 'node-PID-0').replaceAll('|', '\\|').replaceAll('`', "'")}\``;
}
