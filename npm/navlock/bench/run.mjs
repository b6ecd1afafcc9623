// The benchmarks of the package: node bench/run.mjs [--rounds N] [--quick] [--only WORDS] [--splice FILE]
//
// All subjects take turns in each round, each in a process of its own, so that what else the machine
// does falls on all of them. What is not installed is left out, and it is said.

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { startEtcd } from '../test/kit/etcd.mjs';
import { markdown, text } from './report.mjs';
import { about, interleave, runInside, splice } from './rounds.mjs';
import { tables } from './tables.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    splice: { type: 'string' },
  },
});
const rounds = values.quick ? 1 : Number(values.rounds);
const scale = values.quick ? 0.02 : 1;

/** The subjects that are navlock. */
const OURS = ['navlock', 'machine', 'asking', 'machines'];

const beside = (file) => fileURLToPath(new URL(file, import.meta.url));

const folder = mkdtempSync(path.join(tmpdir(), 'navlock-bench-'));
const folders = [folder];
const servers = [];
try {
  const machines = await etcd();
  const places = { 'proper-lockfile': folder, ioredis: await redis(), bare: await bare(), machines, 'lock service': machines };
  const hasTaskset = process.platform === 'linux' && spawnSync('taskset', ['--version']).status === 0;
  if (!hasTaskset) console.error('taskset is not installed: what is pinned to one CPU is left out');

  const say = about(rounds);
  const figures = interleave(tables, { rounds, only: values.only }, (column, cases, cpuList) => {
    const place = places[column.subject];
    return (cpuList && !hasTaskset) || place === null ? null : measure(column, cases, cpuList, place);
  });
  console.log(text(tables, figures));
  if (values.splice) splice(values.splice, 'bench:js', markdown(tables, figures, { ...say(), command: 'cargo xtask bench js' }));
} finally {
  // Brokers go on for a while, and would make their files anew.
  const sockets = readdirSync(folder).filter((name) => /^(any|\d+)\.sock(\.etcd|\.asking)?$/.test(name));
  for (const socket of sockets) execFileSync(beside('../bin/navlock'), ['daemon', 'stop'], { env: { ...process.env, NAVLOCK_SOCKET: path.join(folder, socket) }, stdio: 'ignore' });
  const ended = servers.map((server) => server.exitCode ?? once(server, 'exit'));
  for (const server of servers) server.kill();
  await Promise.all(ended);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

/** Runs one process of a subject on these CPUs, or wherever it likes. */
function measure({ subject, runtime }, cases, cpuList, place) {
  const env = { ...process.env, NAVLOCK_SOCKET: path.join(folder, `${cpuList ?? 'any'}.sock`), ...(place && { BENCH_PLACE: place }) };
  // A broker of its own, which keeps its locks there.
  if (subject === 'machines') Object.assign(env, { NAVLOCK_SOCKET: `${env.NAVLOCK_SOCKET}.etcd`, NAVLOCK_ETCD: place });
  if (subject === 'asking') Object.assign(env, { NAVLOCK_SOCKET: `${env.NAVLOCK_SOCKET}.asking`, NAVLOCK_DELEGATE: '0' });
  try {
    return runInside(runtime, 'inside.mjs', [subject, String(scale), ...cases], { env, cpuList });
  } catch (error) {
    // Ours may not fail. Node's own locks forget a waiter in another thread now and then.
    if (OURS.includes(subject)) throw error;
    console.error(`${subject} on ${runtime} came to no end with ${cases.join(', ')}: left out of this round`);
    return {};
  }
}

/** A Redis of our own, or null. */
async function redis() {
  if (spawnSync('redis-server', ['--version']).status !== 0) return skipped('redis-server is not installed');
  const socket = path.join(folder, 'redis.sock');
  servers.push(spawn('redis-server', ['--port', '0', '--unixsocket', socket, '--save', '', '--appendonly', 'no'], { cwd: folder, stdio: 'ignore' }));
  return appeared(socket);
}

/** An etcd of our own, or null. */
async function etcd() {
  if (spawnSync('etcd', ['--version']).status !== 0) return skipped('etcd is not installed');
  const data = mkdtempSync(path.join(existsSync('/dev/shm') ? '/dev/shm' : folder, 'navlock-bench-'));
  folders.push(data);
  const etcd = await startEtcd(data).catch((error) => skipped(`${error.message}: left out`));
  if (!etcd) return null;
  servers.push(etcd);
  return etcd.endpoint;
}

/** The least broker there can be, a program of the repository, or null. */
async function bare() {
  const program = process.env.NAVLOCK_BENCHES;
  if (!program) return skipped('the bare broker is left out: `cargo xtask bench js` builds it');
  const socket = path.join(folder, 'bare.sock');
  const cpu = String(cpus().length - 1);
  const server = spawn(program, ['participant', cpu, 'serve', 'bare', socket], { stdio: ['pipe', 'ignore', 'inherit'] });
  servers.push(server);
  // Ours may not fail.
  if ((await Promise.race([appeared(socket), once(server, 'exit')])) !== socket) throw new Error(`the bare broker did not start: ${program}`);
  return socket;
}

function skipped(why) {
  console.error(why);
  return null;
}

async function appeared(file) {
  for (const deadline = Date.now() + 10_000; !existsSync(file); ) {
    if (Date.now() > deadline) return skipped(`${file} does not appear: left out`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return file;
}
