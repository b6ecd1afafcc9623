// The package as its users have it: packed, and installed in an empty project.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { after, before, suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { runtimes } from '../runtimes.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..', '..');

/** The program of the README, with something to do under the lock: it waits for the end of its input. */
const HOLD = `
import { once } from 'node:events';
import process from 'node:process';
import { locks } from 'navlock';

await locks.request('my_resource', async () => {
  console.log('held');
  process.stdin.resume();
  await once(process.stdin, 'end');
});
process.exit(0);
`;

/** From the other entry of the package. */
const LOOK = `
const { locks } = require('navlock');

locks.query().then(({ held, pending }) => console.log(\`\${held.length} held, \${pending.length} waiting\`));
`;

/** Where the packages come from, and which they are. */
const layouts = {
  'with what was built beside it': (folder) => {
    npm(root, 'pack', '--pack-destination', folder);
    return packed(folder);
  },
  'with a package for the platform': (folder) => {
    execFileSync(process.execPath, [path.join(root, 'scripts', 'release.mjs'), '--out', folder], { stdio: ['ignore', 'ignore', 'inherit'] });
    return packed(folder);
  },
};

function packed(folder) {
  return readdirSync(folder).filter((file) => file.endsWith('.tgz')).map((file) => path.join(folder, file));
}

function npm(cwd, ...words) {
  return execFileSync('npm', [...words, '--silent', '--no-audit', '--no-fund'], { cwd, encoding: 'utf8' });
}

for (const [layout, pack] of Object.entries(layouts)) {
  suite(`installed in an empty project, ${layout}`, () => {
    let folder;
    let project;

    before(() => {
      folder = mkdtempSync(path.join(tmpdir(), 'navlock-package-'));
      project = path.join(folder, 'project');
      mkdirSync(path.join(folder, 'packed'));
      mkdirSync(project);
      writeFileSync(path.join(project, 'package.json'), '{ "name": "empty", "private": true }\n');
      npm(project, 'install', ...pack(path.join(folder, 'packed')));
      writeFileSync(path.join(project, 'hold.mjs'), HOLD);
      writeFileSync(path.join(project, 'look.cjs'), LOOK);
    });
    // The broker, which goes on for a while, makes its files anew.
    after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 100, retryDelay: 10 }));

    /** Runs a program of the project, with a broker of the project's own. */
    function start([file, ...flags], program) {
      const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('NAVLOCK_'));
      const env = { ...Object.fromEntries(inherited), NAVLOCK_SOCKET: path.join(folder, 'sock') };
      const child = spawn(file, [...flags, path.join(project, program)], { cwd: project, env, stdio: ['pipe', 'pipe', 'inherit'] });
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      return { child, hear: async () => (await lines.next()).value, ended: once(child, 'exit') };
    }

    async function look() {
      const { hear, ended } = start(runtimes.node, 'look.cjs');
      const [said] = await Promise.all([hear(), ended]);
      return said;
    }

    const names = Object.keys(runtimes);
    for (const [index, name] of names.entries()) {
      const other = names[(index + 1) % names.length];
      test(`on ${name} and ${other} the second program waits for the first`, { timeout: 60_000 }, async () => {
        const first = start(runtimes[name], 'hold.mjs');
        assert.equal(await first.hear(), 'held');
        const second = start(runtimes[other], 'hold.mjs');
        while ((await look()) !== '1 held, 1 waiting') {
          assert.equal(second.child.exitCode, null);
        }
        first.child.stdin.end();
        assert.equal(await second.hear(), 'held');
        assert.deepEqual(await first.ended, [0, null]);
        // Killed, it leaves nothing held.
        second.child.kill('SIGKILL');
        await second.ended;
        while ((await look()) !== '0 held, 0 waiting');
      });
    }

    test('no script is run when it is installed', () => {
      const { scripts = {} } = JSON.parse(readFileSync(path.join(project, 'node_modules', 'navlock', 'package.json'), 'utf8'));
      for (const script of ['preinstall', 'install', 'postinstall', 'prepare']) assert.equal(scripts[script], undefined);
    });
  });
}
