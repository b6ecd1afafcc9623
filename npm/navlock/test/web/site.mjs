// Serves `navlock web` of a broker of its own, starts programs that lock there, and opens a browser on the page.

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
 * Opens a place, with functions that start programs in it. The programs end when the place is closed. With `etcd` the
 * place uses this etcd, as other places may. With `host` the programs believe that they run on a machine of this
 * name.
 */
export function open({ etcd, host } = {}) {
  const place = openPlace(navlock);
  const env = {
    ...process.env, NAVLOCK_SOCKET: place.socket, NAVLOCK_CONFIG: '/dev/null', NAVLOCK_STATE: `${place.folder}/state`, NAVLOCK_BIN: navlock, NAVLOCK_REACH: 'machine', NAVLOCK_BUCKET: 'default',
  };
  delete env.NAVLOCK_ETCD;
  if (etcd?.settings) Object.assign(env, { NAVLOCK_CONFIG: etcd.settings, NAVLOCK_STORE: 'main' });
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

  /**
   * Starts a command that requests these locks. Under them it runs a program of this name, which requests another
   * lock for each line of its input, and ends with its input.
   */
  function askAs(called, ...args) {
    const file = path.join(place.folder, called);
    if (!existsSync(file)) writeFileSync(file, '#!/bin/sh\necho $$\nwhile read name; do "$NAVLOCK_BIN" run "$name" true; done\n', { mode: 0o700 });
    const child = start(navlock, ['run', ...args, '--', file]);
    return {
      child,
      /** Waits until the locks are held, and returns the process id of the command. */
      held: async () => Number(await child.line()),
      release: async () => { child.stdin.end(); await child.ended; },
    };
  }

  /** As `askAs`, and waits until the locks are held. */
  async function holdAs(called, ...args) {
    const holder = askAs(called, ...args);
    return { ...holder, pid: await holder.held() };
  }

  const [ask, hold] = [askAs, holdAs].map((as) => (...args) => as('worker', ...args));

  /** Starts a program of JavaScript, which writes lines and ends with its input. */
  const script = (source) => start(process.execPath, ['--input-type=module', '-e', `import { locks } from ${JSON.stringify(LIBRARY)};\n${source}`]);

  /** Serves the page. */
  async function web(...args) {
    const child = start(navlock, ['web', ...args]);
    const address = new URL(await child.line());
    return { child, address, origin: address.origin, port: Number(address.port), token: address.searchParams.get('token') };
  }

  async function close() {
    const ended = [...children].map((child) => child.ended);
    for (const socket of [place.socket, `${place.socket}.store-main`]) endAll(`NAVLOCK_SOCKET=${socket}`);
    await Promise.all(ended);
    place.remove();
  }

  return { ...place, env, start, ask, askAs, hold, holdAs, script, web, close, run: (...args) => spawnSync(navlock, args, { env, encoding: 'utf8' }) };
}

/**
 * Kills all processes that have this setting in their environment. To kill a `navlock run` is not enough: the command
 * that it has started goes on, with the locks. Two such commands in a deadlock would wait for ever, and keep our
 * pipes open.
 */
function endAll(setting) {
  const has = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(setting);
    } catch {
      return false; // the process has ended by itself
    }
  };
  const kill = (pid) => {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  };
  // A process may have started another one meanwhile. A process that has ended and was not waited for yet has no
  // environment.
  for (let left; (left = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid && has(entry))).length;) left.forEach((pid) => kill(Number(pid)));
}

/**
 * Kills these processes at one moment, as far as they can tell: none of them has time to act on the end of another
 * one.
 */
export function killAtOnce(...pids) {
  for (const pid of pids) {
    process.kill(pid, 'SIGSTOP');
    const isStopped = (task) => readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8').includes('State:\tT');
    spinUntil(() => readdirSync(`/proc/${pid}/task`).every(isStopped), `process ${pid} was not stopped`, 30_000);
  }
  for (const pid of pids) process.kill(pid, 'SIGKILL');
}

export const LIBRARY = fileURLToPath(new URL('../../js/index.mjs', import.meta.url));

/**
 * Sends a request without a browser. It may have any method and any header, also those that no browser would send.
 */
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

/** Opens a browser. The requests of its pages are in `asked`, and their errors in `wrong`. */
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
