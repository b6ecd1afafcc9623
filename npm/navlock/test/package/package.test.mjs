// The package as its users have it: packed, and installed in an empty project.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { after, before, suite, test } from 'node:test';

import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';

import { runtimes } from '../runtimes.mjs';
import { isForHere, layouts, npm, root } from './pack.mjs';

const resolve = createRequire(import.meta.url).resolve;

/** The program of the README. Under the lock it waits for the end of its input. */
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

/** A program that uses the other entry of the package. */
const LOOK = `
const { locks } = require('navlock');

locks.query().then(({ held, pending }) => console.log(\`\${held.length} held, \${pending.length} waiting\`));
`;

for (const [layout, pack] of Object.entries(layouts)) {
  suite(`installed in an empty project, ${layout}`, () => {
    let folder;
    let project;
    let tarballs;

    before(() => {
      folder = mkdtempSync(path.join(tmpdir(), 'navlock-package-'));
      project = path.join(folder, 'project');
      mkdirSync(path.join(folder, 'packed'));
      mkdirSync(project);
      writeFileSync(path.join(project, 'package.json'), '{ "name": "empty", "private": true }\n');
      tarballs = pack(path.join(folder, 'packed'));
      npm(project, 'install', ...tarballs.filter(isForHere));
      writeFileSync(path.join(project, 'hold.mjs'), HOLD);
      writeFileSync(path.join(project, 'look.cjs'), LOOK);
    });
    const command = () => path.join(project, 'node_modules', '.bin', 'navlock');
    after(() => {
      // The broker is ended first: it would go on for a while, and make its files anew.
      execFileSync(command(), ['daemon', 'stop'], { env: environment(), stdio: 'ignore' });
      rmSync(folder, { recursive: true, force: true, maxRetries: 100, retryDelay: 10 });
    });

    /** An environment without the variables that would decide the tests, and with a broker of the project's own. */
    function environment() {
      const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('NAVLOCK_') && name !== 'NODE_OPTIONS');
      return { ...Object.fromEntries(inherited), NAVLOCK_SOCKET: path.join(folder, 'sock') };
    }

    /** Runs a program of the project. */
    function start([file, ...flags], program) {
      const child = spawn(file, [...flags, path.join(project, program)], { cwd: project, env: environment(), stdio: ['pipe', 'pipe', 'inherit'] });
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
        // A program that is killed leaves no lock held.
        second.child.kill('SIGKILL');
        await second.ended;
        while ((await look()) !== '0 held, 0 waiting');
      });
    }

    test('the commands of the README give a program navigator.locks', () => {
      for (const name of ['main.js', 'main.ts']) {
        writeFileSync(path.join(project, name), "import('navlock').then(({ locks }) => navigator.locks.request('db', () => navigator.locks === locks)).then(console.log);\n");
      }
      const commands = [...readFileSync(path.join(root, 'README.md'), 'utf8').matchAll(/^\$ (node|deno|bun) (.*register.*)$/gm)];
      assert.equal(commands.length, 3);
      for (const [, name, words] of commands) {
        const given = words.split(' ');
        if (name === 'deno') given.splice(1, 0, '--no-prompt');
        assert.equal(execFileSync(runtimes[name][0], given, { cwd: project, env: environment(), encoding: 'utf8' }), 'true\n', name);
      }
    });

    test('npx navlock runs the program that was installed, which can use etcd', () => {
      const options = { cwd: project, env: environment(), encoding: 'utf8', stdio: 'pipe' };
      const npx = (...words) => execFileSync('npx', ['navlock', ...words], options);
      const navlock = (...words) => execFileSync(command(), words, options);
      const look = [process.execPath, path.join(project, 'look.cjs')];
      assert.equal(npx('--project', 'run', 'my_resource', '--', ...look), '1 held, 0 waiting\n');
      assert.equal(navlock('run', 'my_resource', '--', ...look), '0 held, 0 waiting\n');
      assert.match(navlock('doctor'), /^ok {4}project: "[^"]*project", a project \(package\.json: empty\)/m);
      assert.throws(() => navlock('doctor', '--etcd', 'https://127.0.0.1:1'), ({ stdout }) => {
        assert.doesNotMatch(stdout, /built without/);
        assert.match(stdout, /^fail {2}etcd.*127\.0\.0\.1:1/m);
        return true;
      });
    });

    test('every package has its licences and says where it comes from', () => {
      const { repository } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
      const cargo = readFileSync(path.join(root, '..', '..', 'Cargo.toml'), 'utf8');
      assert.equal(repository.url, `git+${cargo.match(/^repository = "(.*)"$/m)[1]}.git`);
      for (const tarball of tarballs) {
        const inTarball = (file) => execFileSync('tar', ['-xOf', tarball, `package/${file}`], { maxBuffer: 1 << 28 });
        for (const file of ['LICENSE-APACHE', 'LICENSE-MIT']) {
          assert.deepEqual(inTarball(file), readFileSync(path.join(root, '..', '..', file)), `${file} of ${tarball}`);
        }
        const manifest = JSON.parse(inTarball('package.json'));
        assert.deepEqual(manifest.repository, repository);
        assert.equal(manifest.homepage, cargo.match(/^homepage = "(.*)"$/m)[1]);
        assert.equal(manifest.license, 'Apache-2.0 OR MIT');
        assert.ok(manifest.keywords.includes('web-locks'));
        const readme = inTarball('README.md').toString();
        assert.ok(readme.length > 0);
        // Whoever reads the page in an installed package has no other files of the repository.
        const outside = [...readme.matchAll(/\]\(([^)]*)\)/g)].map(([, link]) => link).filter((link) => !/^(https:|#)/.test(link));
        assert.deepEqual(outside, [], `links out of ${tarball}`);
      }
    });

    test('built files have no debug information', () => {
      for (const file of execFileSync('find', [path.join(project, 'node_modules'), '-name', 'navlock.node', '-o', '-path', '*/bin/navlock'], { encoding: 'utf8' }).trim().split('\n')) {
        const built = readFileSync(file);
        for (const section of ['.debug_info', '.symtab']) assert.ok(!built.includes(`\0${section}\0`), `${section} in ${file}`);
      }
    });

    test('publint and arethetypeswrong find nothing', async () => {
      for (const tarball of tarballs) {
        const data = new Uint8Array(readFileSync(tarball));
        const { messages, pkg } = await publint({ pack: { tarball: data.buffer }, strict: true });
        assert.deepEqual(messages.map((message) => formatMessage(message, pkg)), []);
        if (!/\/navlock-\d/.test(tarball)) continue; // the other packages cannot be imported
        const { entrypoints, problems, types } = await checkPackage(createPackageFromTarballData(data));
        assert.deepEqual([Object.keys(entrypoints), types.kind, problems], [['.', './register', './test', './package.json'], 'included', []]);
      }
    });

    const isFirst = layout === Object.keys(layouts)[0];
    test('its types fit with those of Node 20, whichever way TypeScript finds modules', { skip: !isFirst && 'they are the same', timeout: 120_000 }, () => {
      const nodeTypes = path.dirname(resolve('types-node-20/package.json'));
      cpSync(nodeTypes, path.join(project, 'node_modules', '@types', 'node'), { recursive: true });
      for (const file of ['usage.ts', 'register.ts', 'setup.ts']) cpSync(path.join(root, 'test', 'types', file), path.join(project, file));
      // The newest TypeScript cannot find modules as Node 10 did, so an older one is used.
      const old = createRequire(resolve('@arethetypeswrong/core')).resolve('typescript/lib/tsc.js');
      for (const words of [['commonjs', 'node10'], ['node16', 'node16'], ['esnext', 'bundler']]) {
        const [module, resolution] = words;
        const flags = ['--strict', '--noEmit', '--target', 'es2022', '--lib', 'es2022', '--types', 'node', '--module', module, '--moduleResolution', resolution];
        try {
          execFileSync(process.execPath, [old, ...flags, 'usage.ts', 'register.ts', 'setup.ts'], { cwd: project, encoding: 'utf8' });
        } catch ({ stdout }) {
          assert.fail(`${resolution}: ${stdout}`);
        }
      }
    });

    test('no script is run when it is installed', () => {
      const { scripts = {} } = JSON.parse(readFileSync(path.join(project, 'node_modules', 'navlock', 'package.json'), 'utf8'));
      for (const script of ['preinstall', 'install', 'postinstall', 'prepare']) assert.equal(scripts[script], undefined);
    });
  });
}
