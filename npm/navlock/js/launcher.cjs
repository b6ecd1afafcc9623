#!/usr/bin/env node
'use strict';
// The command `navlock` of this package: runs the program that came with it.

const { spawn } = require('node:child_process');
const process = require('node:process');

const { examine } = require('./doctor.cjs');
const { candidates } = require('./platform.cjs');
const { missing } = require('./missing.cjs');
const { ownProgram } = require('./program.cjs');

/** Options of the program, before its command, that have a value. */
const WITH_VALUE = ['--bucket', '--socket', '--store', '--color'];

const words = process.argv.slice(2);
main();

function main() {
  const program = ownProgram();
  if (commandOf(words) === 'doctor' && !words.some((word) => word === '--help' || word === '-h')) {
    if (!examine(words)) process.exitCode = 1;
    process.env.NAVLOCK_LAUNCHER = __filename;
  }
  if (program === null) return fail(missing('program', candidates('program')).message);
  replaceBy(program);
}

/** Prints why the command cannot be run, and sets the exit code of a command that has failed. */
function fail(message) {
  console.error(message);
  process.exitCode = 1;
}

function commandOf(words) {
  for (let index = 0; index < words.length; index++) {
    if (WITH_VALUE.includes(words[index])) index++;
    else if (!words[index].startsWith('-')) return words[index];
  }
  return null;
}

/**
 * Replaces this process by the program, so that a signal for this process reaches the program. A runtime that cannot do
 * this starts the program, waits for it and passes signals on.
 */
function replaceBy(program) {
  if (typeof process.execve === 'function' && process.exitCode === undefined) {
    // Node ignores SIGPIPE, and `execve` would leave it ignored for the program and its commands. A signal that has a
    // handler is set back to its default by `execve`.
    process.on('SIGPIPE', () => {});
    process.execve(program, [program, ...words], process.env);
  }
  const child = spawn(program, words, { stdio: 'inherit' });
  // A terminal sends these signals to both processes. It sends the last one on Windows.
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGBREAK']) process.on(signal, () => {});
  for (const signal of ['SIGHUP', 'SIGTERM', 'SIGUSR2', 'SIGCONT']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => fail(`navlock: ${program} cannot be started: ${error.message}`));
  child.on('exit', (code, signal) => {
    if (signal !== null) {
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    } else if (process.exitCode === undefined || code !== 0) {
      process.exitCode = code;
    }
  });
}
