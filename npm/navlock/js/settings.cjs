'use strict';
// The settings that hold where a program says nothing. Environment variables are read and checked here alone, each when
// it is first needed: a variable that makes no sense does not disturb a program that does not need it.

const path = require('node:path');

const { TypeError, isWellFormed } = require('./primordials.cjs');
const { environment } = require('./environment.cjs');
const { MAX_BUCKET, defaultBucket } = require('./origin.cjs');
const { findProgram } = require('./program.cjs');

const REACHES = ['process', 'machine', 'system'];

class Settings {
  #reach;
  #bucket;
  #socket;
  #program;
  #reports;

  /** @returns {'process' | 'machine' | 'system'} how far locks are seen */
  get reach() {
    return (this.#reach ??= toReach(environment('NAVLOCK_REACH') ?? 'machine', 'NAVLOCK_REACH'));
  }

  /** @returns {string} */
  get bucket() {
    return (this.#bucket ??= toBucket(environment('NAVLOCK_BUCKET') ?? defaultBucket(), 'NAVLOCK_BUCKET'));
  }

  /** @returns {string | null} the broker's socket; `null`: the one in the files of settings, or the usual one */
  get socket() {
    if (this.#socket === undefined) {
      const socket = environment('NAVLOCK_SOCKET');
      const store = environment('NAVLOCK_STORE');
      const suffix = store === null ? '' : `.store-${store}`; // The broker of a store is beside the other one.
      this.#socket = socket === null ? null : path.resolve(socket) + suffix;
    }
    return this.#socket;
  }

  /** @returns {string | null} the program that is the broker; `null`: what is in the PATH */
  get program() {
    if (this.#program === undefined) this.#program = findProgram();
    return this.#program;
  }

  /** @returns {import('./reports.cjs').Wanted} which reports are wanted, the same object each time */
  get reports() {
    return (this.#reports ??= {
      held: milliseconds('NAVLOCK_REPORT_HELD'),
      waiting: milliseconds('NAVLOCK_REPORT_WAITING'),
      stacks: choice('NAVLOCK_REPORT_STACKS', { 0: false, 1: true }),
      strict: choice('NAVLOCK_STRICT', { 0: 'off', warn: 'warn', 1: 'reject' }),
      deadlocks: choice('NAVLOCK_DEADLOCKS', { 0: 'off', warn: 'warn', 1: 'reject' }),
    });
  }
}

/** @param {string} what  where `value` is from */
function toReach(value, what) {
  if (!REACHES.includes(value)) throw new TypeError(`${what} is ${JSON.stringify(value)}, not "process", "machine" or "system"`);
  return value;
}

/** Names of buckets are text, unlike those of locks. */
function toBucket(value, what) {
  if (typeof value !== 'string' || value === '') throw new TypeError(`${what} is not a name, that is, a string that is not empty`);
  if (!isWellFormed(value)) throw new TypeError(`${what} has a lone surrogate`);
  const length = Buffer.byteLength(value);
  if (length > MAX_BUCKET) throw new TypeError(`${what} has ${length} bytes, more than ${MAX_BUCKET}`);
  return value;
}

/** The milliseconds that a variable gives, if it is set. */
function milliseconds(name) {
  const value = environment(name);
  return value === null ? null : toMilliseconds(Number(value), name);
}

/** The meaning of the word that a variable gives; that of `0` if the variable is not set. */
function choice(name, meanings) {
  const value = environment(name) ?? '0';
  if (Object.hasOwn(meanings, value)) return meanings[value];
  throw new TypeError(`${name} is ${JSON.stringify(value)}, not ${Object.keys(meanings).map((word) => JSON.stringify(word)).join(' or ')}`);
}

/** The longest time that timers can wait. */
const MAX_MILLISECONDS = 2_147_483_647;

function toMilliseconds(value, what) {
  if (Number.isInteger(value) && value >= 1 && value <= MAX_MILLISECONDS) return value;
  throw new TypeError(`${what} is not a number of milliseconds, that is, a whole one from 1 to ${MAX_MILLISECONDS}`);
}

function toSocket(value, what) {
  if (typeof value !== 'string' || value === '') throw new TypeError(`${what} is not a path`);
  return path.resolve(value);
}

module.exports = { settings: new Settings(), toBucket, toMilliseconds, toReach, toSocket };
