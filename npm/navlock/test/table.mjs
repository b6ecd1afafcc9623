// Writes the results of the suite for each rule and implementation into CONFORMANCE.md, between its markers:
// node test/table.mjs [--subject navlock-node+navlock-node-machine,node] [--from FILE] [--only].
//
// Subjects that are joined by + share one column. FILE has what run.mjs prints with --json; without it the suite is
// run. With --only, the columns of other subjects stay as they are.

import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { parseArgs } from 'node:util';

import { conformance } from './conformance.mjs';
import { rules } from './rules.mjs';

const PAGE = new URL('../../../CONFORMANCE.md', import.meta.url);
const [START, END] = ['<!-- conformance:js -->', '<!-- /conformance:js -->'];

/** navlock in each runtime and engine, within a process and through the broker. The other implementations follow. */
const OURS = ['navlock-node', 'navlock-node20', 'navlock-deno', 'navlock-bun', 'boa', 'quickjs'];
const ALL = [...OURS.map((name) => `${name}+${name}-machine`), 'node', 'deno', 'chromium'].join();

const { values } = parseArgs({
  options: {
    subject: { type: 'string', default: ALL },
    from: { type: 'string' },
    only: { type: 'boolean', default: false },
  },
});

const names = values.subject.split(',');
const reports = values.from ? fromFile(values.from) : await fromRuns();
const page = readFileSync(PAGE, 'utf8');
const [before, after] = [page.indexOf(START), page.indexOf(END)];
if (before < 0 || after < before) throw new Error(`CONFORMANCE.md has no ${START} … ${END}`);
const lines = values.only ? merged(page.slice(before + START.length + 1, after).trimEnd().split('\n'), table(reports)) : table(reports);
writeFileSync(PAGE, page.slice(0, before) + [START, ...lines, ''].join('\n') + page.slice(after));

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
  // A column of two reaches does not name a reach.
  const heading = parts.length === 1 ? `${title} ${version}` : `${title.replace(/, reach .*/, '')} ${version}`;
  return { heading, tests: parts.flatMap(({ tests }) => tests) };
}

/** The old lines with the new columns. A new column replaces the one of its title, or comes last of navlock's. */
function merged(old, made) {
  const cells = (line) => line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim());
  const title = (heading) => heading.replace(/ [\d.]+$/, '');
  const [head, ...others] = old.filter((line) => line.startsWith('|')).map(cells);
  const columns = cells(made[0]).map(title);
  const stays = head.map((heading, index) => index < 2 || !columns.includes(title(heading)));
  const end = head.filter((heading, index) => stays[index] && (index < 2 || heading.startsWith('navlock, '))).length;
  const count = Object.keys(rules).length + 2;
  const rows = [head, ...others].slice(0, count).map((row, index) => {
    const kept = row.filter((_, column) => stays[column]);
    return `| ${[...kept.slice(0, end), ...cells(made[index]).slice(2), ...kept.slice(end)].join(' | ')} |`;
  });
  const details = old.slice(old.findIndex((line) => !line.startsWith('|')));
  const replaced = columns.slice(2).map((column) => `<details><summary>${column} `);
  const kept = details.join('\n').split('\n\n').filter((part) => !part.startsWith('Made with'));
  if (kept.some((part) => replaced.some((start) => part.trim().startsWith(start)))) {
    throw new Error('a column with tests that fail cannot be replaced alone: write the whole table');
  }
  return [...rows, kept.join('\n\n'), '', ...made.slice(count + 1)];
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

/** A test counts for the first of its rules. The other rules are those that the test needs as well. */
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
  // Process ids are replaced, because they change from run to run.
  return `\`${short.replace(/node-\d+-\d+/, 'node-PID-0').replaceAll('|', '\\|').replaceAll('`', "'")}\``;
}
