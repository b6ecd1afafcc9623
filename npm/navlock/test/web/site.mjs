// `navlock web` of a broker that nobody else has, those who lock there, and a browser that looks.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import path from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { openPlace, program as installed } from '../kit/place.mjs';
import { spinUntil } from '../kit/wait.mjs';
import { CHROMIUM } from '../subjects/browser.mjs';

/** The command line: that of the package, or another one. */
export const navlock = process.env.NAVLOCK_PROGRAM ?? installed;

/** Why there is no browser to look with, if there is none. */
export const noBrowser = spawnSync(CHROMIUM, ['--version']).error ? `there is no Chromium at ${CHROMIUM} (Debian: apt-get install chromium)` : false;

/** Why there can be no second machine, if there can be none. */
export const noMachines = ['etcd', 'unshare'].find((program) => spawnSync(program, ['--version']).error) ? 'there is no etcd, or no unshare (Debian: apt-get install etcd-server util-linux)' : false;

/**
 * A place with its environment, in which programs are started that end with it: with an `etcd` that others share,
 * and on another machine of the name `host`, as far as programs can tell.
 */
export function open({ etcd, host } = {}) {
  const place = openPlace(navlock);
  const env = {
    ...process.env, NAVLOCK_SOCKET: place.socket, NAVLOCK_CONFIG: '/dev/null', NAVLOCK_STATE: `${place.folder}/state`, NAVLOCK_BIN: navlock, NAVLOCK_REACH: 'machine', NAVLOCK_BUCKET: 'default',
  };
  delete env.NAVLOCK_ETCD;
  if (etcd?.settings) env.NAVLOCK_CONFIG = etcd.settings;
  else if (etcd) env.NAVLOCK_ETCD = etcd.endpoint;
  const children = new Set();

  function start(file, args, { stdio = ['pipe', 'pipe', 'inherit'], ...options } = {}) {
    const before = host ? ['unshare', '--map-root-user', '--uts', 'sh', '-c', `hostname ${host} && exec "$0" "$@"`] : [];
    const [program, ...words] = [...before, file, ...args];
    const child = spawn(program, words, { env, stdio, cwd: place.folder, ...options });
    child.lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    child.line = async () => (await child.lines.next()).value;
    child.ended = once(child, 'exit');
    children.add(child);
    child.ended.then(() => children.delete(child));
    return child;
  }

  /** Somebody who will hold these locks until told to end, or what to take inside them, by a program of this name. */
  function askAs(called, ...args) {
    const file = path.join(place.folder, called);
    if (!existsSync(file)) writeFileSync(file, '#!/bin/sh\necho $$\nwhile read name; do "$NAVLOCK_BIN" run "$name" true; done\n', { mode: 0o700 });
    const child = start(navlock, ['run', ...args, '--', file]);
    return {
      child,
      /** Waits until it holds, and tells the command's process. */
      held: async () => Number(await child.line()),
      release: async () => { child.stdin.end(); await child.ended; },
    };
  }

  /** The same, by a program that is called so, who holds them when this is over. */
  async function holdAs(called, ...args) {
    const holder = askAs(called, ...args);
    return { ...holder, pid: await holder.held() };
  }

  const [ask, hold] = [askAs, holdAs].map((as) => (...args) => as('worker', ...args));

  /** A program of JavaScript, which writes lines and ends with its input. */
  const script = (source) => start(process.execPath, ['--input-type=module', '-e', `import { locks } from ${JSON.stringify(LIBRARY)};\n${source}`]);

  /** Serves the page. */
  async function web(...args) {
    const child = start(navlock, ['web', ...args]);
    const address = new URL(await child.line());
    return { child, address, origin: address.origin, port: Number(address.port), token: address.searchParams.get('token') };
  }

  async function close() {
    const ended = [...children].map((child) => child.ended);
    endAll(`NAVLOCK_SOCKET=${place.socket}`);
    await Promise.all(ended);
    place.remove();
  }

  return { ...place, env, start, ask, askAs, hold, holdAs, script, web, close, run: (...args) => spawnSync(navlock, args, { env, encoding: 'utf8' }) };
}

/**
 * Kills whoever has this in its environment: what a `navlock run` has started goes on when that is killed, with the
 * locks, and two that wait for each other would do so for ever, each with an end of our pipes.
 */
function endAll(setting) {
  const has = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(setting);
    } catch {
      return false; // it has ended by itself
    }
  };
  const kill = (pid) => {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  };
  // One may have started another one meanwhile. Who has ended, but was not yet waited for, has no environment.
  for (let left; (left = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid && has(entry))).length;) left.forEach((pid) => kill(Number(pid)));
}

/** Kills all of these at one moment, as far as they can tell: none has time to do anything about the end of another one. */
export function killAtOnce(...pids) {
  for (const pid of pids) {
    process.kill(pid, 'SIGSTOP');
    const isStopped = (task) => readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8').includes('State:\tT');
    spinUntil(() => readdirSync(`/proc/${pid}/task`).every(isStopped), `process ${pid} was not stopped`, 30_000);
  }
  for (const pid of pids) process.kill(pid, 'SIGKILL');
}

export const LIBRARY = fileURLToPath(new URL('../../js/index.mjs', import.meta.url));

/** Asks without a browser, and as none would: any header, any method. */
export function ask(options) {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', ...options }, async (answer) => {
      let body = '';
      for await (const chunk of answer) body += chunk;
      resolve({ status: answer.statusCode, headers: answer.headers, body });
    });
    asked.on('error', reject);
    asked.end(options.body);
  });
}

/** A browser. What its pages ask for is in `asked`, and what goes wrong in them in `wrong`. */
export async function browse() {
  const { chromium } = await import('playwright-core');
  const browser = await chromium.launch({ executablePath: CHROMIUM, chromiumSandbox: process.getuid?.() !== 0, args: ['--disable-gpu', '--disable-quic'] });
  const [asked, wrong] = [[], []];
  return {
    asked,
    wrong,
    close: () => browser.close(),
    async page(options = {}) {
      const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, ...options });
      const page = await context.newPage();
      page.on('request', (request) => asked.push(request.url()));
      page.on('pageerror', (error) => wrong.push(error.message));
      page.on('console', (message) => message.type() === 'error' && wrong.push(message.text()));
      return page;
    },
  };
}
