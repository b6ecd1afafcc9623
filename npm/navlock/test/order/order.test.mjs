// What is complete before another process begins to ask is seen by what it asks.
//
// Two processes, which run this file, take turns. The first one does something completely, and then writes a byte to the
// second one, which asks at once (acts.mjs). What the second one is told has to be right every time.
// `crates/cli/tests/e2e/order.rs` has the same in Rust.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import process from 'node:process';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker, isMainThread, workerData } from 'node:worker_threads';

import { hold } from 'navlock';

import { openPlace } from '../kit/place.mjs';
import { acts, locks, socket, take, turns } from './acts.mjs';

const file = fileURLToPath(import.meta.url);
const ROUNDS = 1000;
/** One round of so many has a flood, where there are floods. */
const FLOODS = 8;
/** How long a side may take for all its rounds before it counts as hung. */
const DEADLINE = 240_000;
/** A program after these words has a clock of its own, which is more than a day ahead. */
const AHEAD = ['unshare', '--time', '--fork', '--kill-child', '--monotonic', '100000', '--'];

/** What is around the two while they take turns. */
const circumstances = [
  { what: 'nothing else' },
  { what: 'threads make noise', noise: 'threads' },
  { what: 'the first one\'s socket is full', noise: 'flood' },
  { what: 'the first one\'s clock is ahead', ahead: 'first' },
  { what: 'the second one\'s clock is ahead', ahead: 'second' },
];

/** One of the two: its end of the pipe. */
class Side {
  #pipe;
  #heard = [];
  #awaited;
  #requests = [];
  #floods;
  #turns = 0;

  constructor(pipe, floods) {
    this.#pipe = pipe;
    this.#floods = floods;
    pipe.on('data', (bytes) => {
      this.#heard.push(...bytes);
      this.#awaited?.();
    });
    pipe.on('close', () => process.exit());
  }

  /** Has the other one go on, and tells it whether what was seen here was right. */
  tell(isRight = true) {
    this.#pipe.write(Buffer.of(isRight ? 1 : 0));
  }

  /** Waits until the other one says so. @returns whether what the other one has seen was right */
  async hear() {
    if (this.#heard.length === 0) await new Promise((heard) => (this.#awaited = heard));
    this.#awaited = undefined;
    return this.#heard.shift() === 1;
  }

  /** Makes more requests at once than a socket has room for, if this side does so: not always, because it takes time. */
  flood() {
    if (!this.#floods || this.#turns++ % FLOODS !== 0) return;
    // Names as long as these are nobody's own.
    const names = Array.from({ length: 16 }, (_, one) => `flood-${one}-`.padEnd(16_000, '-'));
    this.#requests.push(...names.map((name) => take(name)));
  }

  /** Waits for the answers to that. */
  async settle() {
    await Promise.all(this.#requests.splice(0));
  }
}

/** The process of a side. The second one prints how often it was told what is wrong. */
async function play(which, { name, noise }) {
  const { rounds = ROUNDS, [which]: act } = acts[name];
  if (noise === 'threads') for (let number = 0; number < 2; number++) new Worker(file, { workerData: { number } }).unref();
  const pair = `${socket}.pair`;
  let pipe;
  if (which === 'first') {
    const server = createServer().listen(pair);
    await once(server, 'listening');
    console.log('listens');
    [pipe] = await once(server, 'connection');
    server.close();
  } else {
    pipe = connect(pair);
  }
  const side = new Side(pipe, which === 'first' && noise === 'flood');
  let wrong = 0;
  for (let round = 0; round < rounds; round++) {
    if ((await act(side, round)) === false) wrong++;
    await side.settle();
  }
  if (which === 'first') return;
  console.log(wrong);
  pipe.end();
}

/** Has two processes do this in turns. @returns how often the second one was told what is wrong */
async function wrongs(name, { noise, ahead }, delegate) {
  const { socket, remove } = openPlace();
  const env = { ...process.env, NAVLOCK_SOCKET: socket, NAVLOCK_DELEGATE: delegate, NAVLOCK_IDLE_SECS: '30' };
  const started = [];
  const start = (which) => {
    const [program, ...words] = [...(ahead === which ? AHEAD : []), process.execPath, file, which, JSON.stringify({ name, noise })];
    const child = spawn(program, words, { env, stdio: ['ignore', 'pipe', 'inherit'], timeout: DEADLINE, killSignal: 'SIGKILL' });
    started.push(child);
    return child;
  };
  try {
    await once(start('first').stdout, 'data');
    const said = await text(start('second').stdout);
    assert.match(said, /^\d+\n$/, 'it has ended, or was hung, before the last round');
    return Number(said);
  } finally {
    for (const child of started) child.kill('SIGKILL');
    remove();
  }
}

const hasClocks = process.platform === 'linux' && spawnSync(AHEAD[0], [...AHEAD.slice(1), 'true'], { stdio: 'ignore' }).status === 0;

if (!isMainThread) {
  // Noise: a thread that takes the locks that the threads of this number take in both processes.
  for (let turn = 0; ; turn++) await take(`noise-${workerData.number}`, { mode: turn % 3 === 0 ? 'shared' : 'exclusive' });
} else if (process.argv[2] === 'holder') {
  await turns('x', Number(process.argv[3]));
  await hold(locks, 'x');
  console.log('holds');
  setInterval(() => {}, DEADLINE);
} else if (process.argv[2]) {
  await play(process.argv[2], JSON.parse(process.argv[3]));
} else {
  for (const name of Object.keys(acts)) {
    test(name, { skip: process.platform === 'win32' && 'the pipe is a socket of Unix' }, async (context) => {
      if (!hasClocks) context.diagnostic('skipped: clocks that are ahead, because unshare is refused');
      const faults = [];
      for (const around of circumstances) {
        if (around.ahead && !hasClocks) continue;
        for (const delegate of ['1', '0']) {
          const wrong = await wrongs(name, around, delegate);
          const names = delegate === '1' ? 'owned names' : 'names that nobody owns';
          const line = `${wrong} of ${acts[name].rounds ?? ROUNDS} wrong: ${names}, ${around.what}`;
          if (wrong > 0) faults.push(line);
        }
      }
      assert.deepEqual(faults, []);
    });
  }
}
