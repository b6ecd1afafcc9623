'use strict';
// What `npx navlock doctor` says before the program's own findings, as lines of the same form.

const process = require('node:process');

const { findAddon } = require('./addon.cjs');
const { candidates } = require('./platform.cjs');
const { missing } = require('./missing.cjs');
const { ownProgram } = require('./program.cjs');

/**
 * @param {string[]} words  of the command line
 * @returns {boolean} whether nothing is wrong
 */
function examine(words) {
  const checks = [addon(), program()];
  for (const check of checks) console.log(words.includes('--json') ? JSON.stringify(check) : line(check, hasColours(words)));
  return checks.every(({ level }) => level !== 'fail');
}

function addon() {
  return check('addon', () => `${findAddon().file}, on ${runtime()}`);
}

function program() {
  return check('package', () => {
    const file = ownProgram();
    if (file === null) throw missing('program', candidates('program'));
    return `its program is ${file}`;
  });
}

function runtime() {
  const { bun, deno, node } = process.versions;
  return bun ? `Bun ${bun}` : deno ? `Deno ${deno}` : `Node ${node}`;
}

function check(what, look) {
  try {
    return { level: 'ok', what, detail: look() };
  } catch (error) {
    return { level: 'fail', what, detail: error.message.replace(/^navlock: /, '') };
  }
}

function line({ level, what, detail }, coloured) {
  const shown = level.padEnd(4);
  const [begin, end] = level === 'ok' ? ['\u001b[32m', '\u001b[0m'] : ['\u001b[1m\u001b[31m', '\u001b[0m'];
  return `${coloured ? begin + shown + end : shown}  ${what}: ${detail.replaceAll('\n', '; ')}`;
}

function hasColours(words) {
  const color = words.indexOf('--color');
  const said = words.find((word) => word.startsWith('--color='))?.slice(8) ?? (color === -1 ? 'auto' : words[color + 1]);
  return said === 'auto' ? process.stdout.isTTY === true && !process.env.NO_COLOR : said === 'always';
}

module.exports = { examine };
