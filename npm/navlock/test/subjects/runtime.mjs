// Runs each test in a process of its own: some implementations end their process, or hang it.

import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import { openPlace } from '../kit/place.mjs';

/** The path of a module of host/. */
export const host = (module) => fileURLToPath(new URL(`../host/${module}`, import.meta.url));

const MARK = '\n@outcome ';

/** How much longer than its test a process may take, to start and to report a missed deadline. */
const GRACE = 3_000;

/** @returns {Promise<import('./index.mjs').Session>} */
export async function openRuntime({ realm, command, reach }) {
  const version = execFileSync(command[0], ['--version'], { encoding: 'utf8' }).match(/\d+\.\d+\.\d+/)[0];
  const { execute, close } = openHosts({ realm, command, reach });
  return {
    version,
    runFile: (job, ms) => execute('wpt-process.mjs', job, ms),
    run: async (test) => outcome(await execute('test-process.mjs', { test: test.name }, test.deadline + GRACE)),
    close,
  };
}

/**
 * Returns a function that runs a module of host/, each time in a bucket of its own.
 *
 * @param {{ realm: string, command: string[], reach?: string, program?: string }} what  `program` is the
 *     command line `navlock`, if it is not that of the package
 */
export function openHosts({ realm, command, reach, program }) {
  // This session has a broker of its own, so that other programs on the machine do not matter.
  const { socket, remove } = openPlace(program);
  const environment = () => ({
    ...process.env,
    ...(reach && { NAVLOCK_REACH: reach, NAVLOCK_BUCKET: randomUUID(), NAVLOCK_SOCKET: socket }),
    ...(program && { NAVLOCK_BIN: program }),
  });
  return {
    execute: (module, job, ms) => executeModule([...command, host(module)], { realm, command, ...job }, environment(), ms),
    close: async () => remove(),
  };
}

/**
 * Runs a program with a job as its last word. Its output goes through pipes, or, if a folder is given, through files
 * of that folder.
 *
 * @returns {Promise<{ code?: number, signal?: string, output: string, errors: string, late: boolean }>}
 */
export function executeModule([file, ...words], job, env, ms, folder) {
  const written = folder && ['output', 'errors'].map((name) => path.join(folder, `${name}-${randomUUID()}`));
  const files = written?.map((name) => openSync(name, 'w'));
  // In a process group of its own, so that processes that a test leaves behind can be ended with it.
  const child = spawn(file, [...words, JSON.stringify(job)], { env, detached: true, stdio: ['ignore', ...(files ?? ['pipe', 'pipe'])] });
  files?.forEach((one) => closeSync(one));
  let [output, errors, late] = ['', '', false];
  child.stdout?.setEncoding('utf8').on('data', (text) => (output += text));
  child.stderr?.setEncoding('utf8').on('data', (text) => (errors += text));
  const timer = setTimeout(() => {
    late = true;
    endGroup(child.pid);
  }, ms);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', () => {
      clearTimeout(timer);
      endGroup(child.pid);
    });
    // All processes that had the pipes have ended by now, and everything that they wrote has arrived.
    child.on('close', (code, signal) => {
      if (written) [output, errors] = written.map((name) => readFileSync(name, 'utf8'));
      resolve({ code, signal, output, errors, late });
    });
  });
}

function endGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // No process is left, as it should be.
  }
}

export function outcome({ code, signal, output, errors, late }) {
  const start = output.lastIndexOf(MARK);
  if (start >= 0) return JSON.parse(output.slice(start + MARK.length));
  if (late) return { passed: false, reason: 'the process hangs: it did not even see its own deadline' };
  const complaint = errors.split('\n').find((line) => /error|fatal|panic|exception/i.test(line)) ?? '';
  return { passed: false, reason: `the process ended early (${signal ?? `exit code ${code}`}) ${complaint.trim()}`.trim() };
}
