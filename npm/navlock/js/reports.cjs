'use strict';
// Reports: warnings of the process, and which of them a program wants.

const path = require('node:path');
const process = require('node:process');
const { runInThisContext } = require('node:vm');

const { Error, TypeError, defineProperty } = require('./primordials.cjs');
const { isBundled } = require('./platform.cjs');
const { settings, toMilliseconds } = require('./settings.cjs');

/**
 * Which reports are wanted.
 *
 * @typedef {object} Wanted
 * @property {number | null} held  milliseconds; `null`: no reports of held locks
 * @property {number | null} waiting  milliseconds; `null`: no reports of waiting requests
 * @property {boolean} stacks
 * @property {'off' | 'warn' | 'reject'} strict
 * @property {'off' | 'warn' | 'reject'} deadlocks  for requests that would wait for ever: whether they are reported,
 *   and whether the request that came last fails
 */

/** @type {Wanted | null} what the program has said; `null`: what the environment says */
let given = null;

/** FAST: nearly all programs want no reports, and each request would have to ask. */
const reporting = { isOff: false };

/** @returns {Wanted} Throws a TypeError if the environment makes no sense. */
function wantedReports() {
  return given ?? settings.reports;
}

/** Sets which reports are wanted of later requests in this thread. Throws a TypeError for options that make no sense. */
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

/** The stack of the caller, for {@link placeOf}. */
function takeStack() {
  const at = {};
  try {
    Error.captureStackTrace(at, takeStack);
  } catch {
    // As in placeOf().
  }
  return at;
}

/** What marks a line of this package in a stack. In a bundle, nothing does: all code is in one file. */
const OURS = isBundled() ? null : __dirname + path.sep;

/**
 * The lines of a stack, as the engine writes them, without those of this package and of the runtime. It takes time, so it
 * is called only if somebody reads them. Empty if the lines cannot be had.
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

/** The words of a warning for the place at which something was done, if the place is known. */
function at(what, place) {
  return place === null || place === '' ? '' : `\n${what}\n${place}`;
}

/** Emits a warning of the process. Its listeners find `code` and `lock` beside the text. */
function warn(code, message, lock) {
  // `emitWarning` accepts only errors of the main context, and `Error` may be that of another context: test runners
  // give each file a context of its own.
  const warning = new (runInThisContext('Error'))(message);
  // By definition and not by assignment: where `Error.prototype` is frozen, an assignment throws.
  for (const [key, value] of [['name', 'NavlockWarning'], ['code', code], ['lock', lock]]) {
    defineProperty(warning, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  }
  process.emitWarning(warning);
}

module.exports = { at, placeOf, report, reporting, takeStack, wantedReports, warn };
