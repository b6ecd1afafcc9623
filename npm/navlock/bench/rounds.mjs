// How benchmarks are run: all subjects take turns in each round, each in a process of its own, so that
// what else the machine does falls on all of them.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import { runtimes } from '../test/runtimes.mjs';

/**
 * Measures what the tables have.
 *
 * @param {{ rounds: number, only?: string }} options  only rows with these words
 * @param {(column: object, cases: string[], cpuList?: string) => object | null} measure  the figures of these
 *   cases by their names; `null` if they are left out
 * @returns {Map<string, number[]>} by table, row and column the figures of all rounds
 */
export function interleave(tables, { rounds, only }, measure) {
  const figures = new Map();
  for (let round = 0; round < rounds; round++) {
    for (const table of tables) {
      for (const column of table.columns) {
        const cases = table.rows.filter((row) => wanted(table, row, column, only)).map((row) => row.case);
        const measured = cases.length === 0 ? null : measure(column, [...new Set(cases)], table.cpus);
        if (measured === null) continue;
        for (const row of table.rows) {
          const figure = measured[row.case]?.[row.figure ?? 'each'];
          if (figure === undefined) continue;
          const key = `${table.id} ${row.title} ${column.title}`;
          figures.set(key, [...(figures.get(key) ?? []), figure]);
        }
      }
    }
    console.error(`round ${round + 1} of ${rounds}`);
  }
  return figures;
}

function wanted(table, row, column, only) {
  const name = `${table.id} ${row.title} ${column.title}`;
  return !row.without?.includes(column.title) && (!only || name.includes(only));
}

/** Runs a module of this folder in a process of a runtime. The figures that it prints. */
export function runInside(runtime, module, words, { env = process.env, cpuList } = {}) {
  const pinned = cpuList ? ['taskset', '--cpu-list', cpuList] : [];
  const [file, ...all] = [...pinned, ...runtimes[runtime], fileURLToPath(new URL(module, import.meta.url)), ...words];
  const output = execFileSync(file, all, { encoding: 'utf8', timeout: 60_000, killSignal: 'SIGKILL', env });
  return JSON.parse(output.slice(output.lastIndexOf('@figures') + '@figures'.length));
}

/** To be called before the rounds; what it returns, after them: when and where they were. */
export function about(rounds) {
  const before = loadavg()[0];
  return () => ({
    rounds,
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpus()[0].model.trim()}, ${cpus().length} CPUs, load average ${before.toFixed(2)} before and ${loadavg()[0].toFixed(2)} after`,
    versions: Object.entries(runtimes).map(([name, [file]]) => `${name} ${version(file)}`).join(', '),
  });
}

function version(file) {
  return execFileSync(file, ['--version'], { encoding: 'utf8' }).match(/\d+\.\d+\.\d+/)[0];
}

/** Puts text between the markers of a file. */
export function splice(file, marker, text) {
  const [start, end] = [`<!-- ${marker} -->`, `<!-- /${marker} -->`];
  const before = readFileSync(file, 'utf8');
  const [from, to] = [before.indexOf(start), before.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${file} has no place for the tables: ${start} and ${end}`);
  writeFileSync(file, `${before.slice(0, from + start.length)}\n${text}${before.slice(to)}`);
}
