// One process: how often a request crosses Node-API where section 3 is navlock-js, and what each crossing
// costs. Prints { counts, costs }, the costs in nanoseconds.

import process from 'node:process';

import face from './one-face/face.cjs';

const nothing = async () => {};

/** What each function is measured with. */
const VALUES = {
  napi_get_cb_info: null,
  napi_typeof: {},
  napi_get_undefined: null,
  napi_get_boolean: null,
  napi_get_value_bool: true,
  napi_get_value_uint32: 7,
  napi_create_uint32: null,
  napi_get_value_string_utf16: 'db',
  napi_create_string_utf8: null,
  napi_get_named_property: {},
  napi_call_function: () => {},
  napi_create_promise: null,
  napi_create_reference: () => {},
  napi_get_reference_value: () => {},
};

const addon = face.load();
const costs = Object.fromEntries(Object.entries(VALUES).map(([name, value]) => [name, least(100, () => addon.cost(name, 500, value))]));
costs.entry = least(20, () => entry(20_000));
console.log(`\n@figures ${JSON.stringify({ counts: await count(1000), costs })}`);
process.exit(0);

/** Of many short measurements, none of which anything else may have come into. */
function least(times, measure) {
  return Math.min(...Array.from({ length: times }, measure));
}

/** What a call of the addon costs a script. */
function entry(times) {
  const call = addon.nothing;
  const began = performance.now();
  for (let i = 0; i < times; i++) call();
  return ((performance.now() - began) * 1e6) / times;
}

/** Calls of each function for one lock that is free, by the addon's own counters. */
async function count(times) {
  const { addon: counting, locks } = face.openLockManager('crossings', true);
  await locks.request('db', {}, nothing);
  counting.startCounting();
  for (let i = 0; i < times; i++) await locks.request('db', {}, nothing);
  const lines = counting.stopCounting().split('\n').map((line) => line.split(' '));
  return Object.fromEntries(lines.map(([name, number]) => [name, Math.round(Number(number) / times)]));
}
