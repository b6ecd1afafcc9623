'use strict';
// What a program is told beyond what it has asked for: warnings of the process, and which of them are wanted.

const path = require('node:path');
const process = require('node:process');
const { runInThisContext } = require('node:vm');

const { Error, TypeError } = require('./primordials.cjs');
const { isBundled } = require('./platform.cjs');
const { settings, toMilliseconds } = require('./settings.cjs');

/**
 * Which reports are wanted.
 *
 * @typedef {object} Wanted
 * @property {number | null} held  milliseconds, as the next one
 * @property {number | null} waiting
 * @property {boolean} stacks
 * @property {'off' | 'warn' | 'reject'} strict
 * @property {'off' | 'warn' | 'reject'} deadlocks  of requests that would wait for ever: whether they are told of,
 *   and whether the one fails that came last
 */

/** @type {Wanted | null} what the program has said; `null`: what the environment says */
let given = null;

/** FAST: nearly all programs want none, and each request would ask. */
const reporting = { isOff: false };

/** @returns {Wanted} Throws a TypeError if the environment makes no sense. */
function wantedReports() {
  return given ?? settings.reports;
}

/** From now on, in this thread, for what is requested then. Throws a TypeError for what makes no sense. */
function report(options = {}) {
  if (typeof options !== 'object' || options === null) throw new TypeError('report: the options are not an object');
  const { deadlocks = false, held, stacks = false, strict = false, waiting } = options;
  if (typeof stacks !== 'boolean') throw new TypeError('report: stacks is not a boolean');
  reporting.isOff = false;
  given = {
    held: held === undefined ? null : toMilliseconds(held, 'report: held'),
    waiting: waiting === undefined ? null : toMilliseconds(waiting, 'report: waiting'),
    stacks,
    strict: toStrictness(strict, 'report: strict'),
    deadlocks: toStrictness(deadlocks, 'report: deadlocks'),
  };
}

/** @param {string} what  where `value` is from */
function toStrictness(value, what) {
  if (value === 'warn') return 'warn';
  if (typeof value !== 'boolean') throw new TypeError(`${what} is not a boolean, nor "warn"`);
  return value ? 'reject' : 'off';
}

/** Where we are called from, for {@link placeOf}. */
function takeStack() {
  const at = {};
  try {
    Error.captureStackTrace(at, takeStack);
  } catch {
    // As in placeOf().
  }
  return at;
}

/** What lines of ours in a stack have. In a bundle, files are everybody's. */
const OURS = isBundled() ? null : __dirname + path.sep;

/**
 * The lines of a stack, as the engine writes them, without ours and those of the runtime. That takes time,
 * so only for who reads them. Empty if they cannot be had.
 */
function placeOf(at) {
  const isTheirs = (line) => /^\s*at /.test(line) && !/[( ](node|ext|native|bun):/.test(line) && (OURS === null || !line.includes(OURS));
  return textOf(at).split('\n').filter(isTheirs).join('\n');
}

/** A program may have said what a stack is (`Error.prepareStackTrace`): a text, call sites, anything. */
function textOf(at) {
  try {
    const { stack } = at;
    return Array.isArray(stack) ? stack.map((site) => `    at ${site}`).join('\n') : `${stack}`;
  } catch {
    return '';
  }
}

/** The part of a warning that says what was done at a place, if that is known. */
function at(what, place) {
  return place === null || place === '' ? '' : `\n${what}\n${place}`;
}

/** Tells the process, whose listeners find `code` and `lock` beside the text. */
function warn(code, message, lock) {
  // The runtime takes its own errors alone, and that of a context is another one: test runners give each file one.
  const warning = new (runInThisContext('Error'))(message);
  warning.name = 'NavlockWarning';
  warning.code = code;
  warning.lock = lock;
  process.emitWarning(warning);
}

module.exports = { at, placeOf, report, reporting, takeStack, wantedReports, warn };
