// Whether one half for section 3 would do: node bench/faces.mjs [--rounds N] [--quick] [--splice FILE]
//
// Measures the package, which has it in JavaScript, and navlock-js on Node-API (one-face/), which it
// builds. Also how often a request crosses Node-API in each, and what that costs.

import { execFileSync } from 'node:child_process';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { markdown, median, text } from './report.mjs';
import { about, interleave, runInside, splice } from './rounds.mjs';
import { rows } from './tables.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    quick: { type: 'boolean', default: false },
    splice: { type: 'string' },
  },
});
const rounds = values.quick ? 1 : Number(values.rounds);
const scale = values.quick ? 0.02 : 1;

const PACKAGE = 'in JavaScript';
const RUST = 'in Rust';
const RUNTIMES = { node: 'Node', deno: 'Deno', bun: 'Bun' };

const tables = Object.entries(RUNTIMES).map(([runtime, title]) => ({
  id: `faces, ${runtime}`,
  title: `Section 3 in Rust and in JavaScript, ${title}`,
  columns: [
    { title: RUST, subject: 'one face', runtime },
    { title: PACKAGE, subject: 'navlock', runtime },
  ],
  rows: rows.map((row) => ({ ...row, without: [], goal: { most: 1, to: PACKAGE } })),
}));

/**
 * What the package's addon calls for a free lock, by reading src/functions.rs: `request` and `release`.
 * `entry` is a call of the addon by a script. What others count in one (the end of a reference, the settling
 * of a promise) is counted with the call that makes it.
 */
const OF_PACKAGE = {
  entry: 2,
  napi_get_cb_info: 2,
  napi_get_value_uint32: 3,
  napi_get_value_string_utf16: 1,
  napi_create_uint32: 2,
};
const WITH = { napi_create_promise: 'napi_resolve_deferred', napi_create_reference: 'napi_delete_reference' };

execFileSync('cargo', ['build', '--release', '--quiet', '--package', 'navlock-one-face'], {
  cwd: fileURLToPath(new URL('one-face', import.meta.url)),
  stdio: 'inherit',
});

const say = about(rounds);
/** By runtime what each round has of costs, and the counts, which are always the same. */
const crossings = Object.fromEntries(Object.keys(RUNTIMES).map((runtime) => [runtime, []]));
let counts;
const figures = interleave(tables, { rounds }, ({ subject, runtime }, cases) => {
  if (subject === 'one face') {
    const crossed = runInside(runtime, 'crossings.mjs', []);
    crossings[runtime].push(crossed.costs);
    counts = counted(crossed.counts);
  }
  return runInside(runtime, 'inside.mjs', [subject, String(scale), ...cases]);
});
const crossed = table();
console.log(text(tables, figures));
console.log(`\nWhat crosses Node-API for a free lock\n${crossed.map((cells) => cells.map((cell, at) => (at === 0 ? cell.padEnd(62) : cell.padStart(14))).join('')).join('\n')}`);
if (values.splice) {
  const [head, ...body] = crossed;
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const after = `**What crosses Node-API for a free lock**: how often, and the nanoseconds of one crossing (of each round the least, of those the median)\n\n${[line(head), `|${'---|'.repeat(head.length)}`, ...body.map(line)].join('\n')}`;
  splice(values.splice, 'bench:faces', markdown(tables, figures, { ...say(), command: 'cargo xtask bench faces', after }));
}

/** Each call with what it needs, and the calls by scripts: each asks for its arguments once. */
function counted(raw) {
  const { ...rest } = raw;
  for (const also of Object.values(WITH)) delete rest[also];
  return { entry: raw.napi_get_cb_info, ...rest };
}

function table() {
  const cost = (runtime, name) => median(crossings[runtime].map((costs) => costs[name]));
  const names = Object.keys(counts).sort((a, b) => counts[b] * cost('node', b) - counts[a] * cost('node', a));
  const shown = (name) => (name === 'entry' ? 'a call of the addon by a script' : [name, WITH[name]].filter(Boolean).map((part) => `\`${part}\``).join(' and '));
  const all = (of, runtime) => names.reduce((sum, name) => sum + (of[name] ?? 0) * cost(runtime, name), 0);
  const total = (of) => names.reduce((sum, name) => sum + (of[name] ?? 0) * (WITH[name] ? 2 : 1), 0) - of.entry;
  const ns = (figure) => figure.toFixed(figure < 10 ? 1 : 0);
  const runtimes = Object.keys(RUNTIMES);
  return [
    ['', RUST, PACKAGE, ...Object.values(RUNTIMES)],
    ...names.map((name) => [shown(name), String(counts[name]), String(OF_PACKAGE[name] ?? 0), ...runtimes.map((runtime) => ns(cost(runtime, name)))]),
    ['calls of Node-API', String(total(counts)), String(total(OF_PACKAGE)), ...runtimes.map(() => '')],
    [`all crossings ${RUST}`, '', '', ...runtimes.map((runtime) => ns(all(counts, runtime)))],
    [`all crossings ${PACKAGE}`, '', '', ...runtimes.map((runtime) => ns(all(OF_PACKAGE, runtime)))],
  ];
}
