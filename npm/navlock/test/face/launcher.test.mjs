// The command `navlock` of the package.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { openPlace, program } from '../kit/place.mjs';
import { runtimes } from '../runtimes.mjs';

const launcher = fileURLToPath(new URL('../../js/launcher.cjs', import.meta.url));
/** On the newest Node the launcher is replaced by the program. On the oldest Node it waits for the program. */
const nodes = ['node', 'node20'];

/** Makes a workspace with one member and a broker of its own. Returns functions that run the command in its folders. */
function open(context) {
  const { socket, remove } = openPlace();
  context.after(remove);
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'navlock-launcher-')));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  const member = path.join(folder, 'apps', 'web');
  mkdirSync(member, { recursive: true });
  writeFileSync(path.join(folder, 'package.json'), '{"workspaces":["apps/*"]}');
  writeFileSync(path.join(member, 'package.json'), '{"name":"web"}');
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('NAVLOCK_') && name !== 'NODE_OPTIONS');
  const start = (node, words, { env = {}, cwd = member } = {}) => {
    const child = spawn(runtimes[node][0], [launcher, ...words], {
      cwd, env: { ...Object.fromEntries(inherited), NAVLOCK_SOCKET: socket, ...env }, stdio: ['ignore', 'pipe', 'pipe'], timeout: 20_000,
    });
    return child;
  };
  const run = async (...args) => {
    const child = start(...args);
    const said = { out: '', err: '' };
    child.stdout.setEncoding('utf8').on('data', (text) => (said.out += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (said.err += text));
    const [code, signal] = await once(child, 'close');
    return { ...said, code, signal };
  };
  return { folder, member, start, run };
}

for (const node of nodes) {
  test(`on ${node} it passes words, output and exit codes on`, async (context) => {
    const { run } = open(context);
    assert.deepEqual(await run(node, ['run', 'db', '--', 'sh', '-c', 'echo "$1"; echo err >&2; exit 7', 'sh', 'a b']), {
      out: 'a b\n', err: 'err\n', code: 7, signal: null,
    });
    assert.match((await run(node, ['--version'])).out, /^navlock \d/);
    assert.equal((await run(node, ['no-such-command'])).code, 64);
  });

  test(`on ${node} a command has the signals that it would have without it`, async (context) => {
    const { run } = open(context);
    const script = 'yes | head -n 1';
    assert.deepEqual(await run(node, ['run', 'db', '--', 'sh', '-c', script]), { out: 'y\n', err: '', code: 0, signal: null });
  });

  test(`on ${node} a signal that ends it ends the command`, async (context) => {
    const { start } = open(context);
    const child = start(node, ['run', 'db', '--', 'sh', '-c', 'echo held; exec sleep 1000']);
    const [line] = await once(createInterface({ input: child.stdout }), 'line');
    assert.equal(line, 'held');
    child.kill('SIGTERM');
    const [code, signal] = await once(child, 'close'); // `sleep` has the output too, so it has ended as well
    assert.ok(code === 143 || signal === 'SIGTERM', `${code} ${signal}`);
  });

  test(`on ${node} --project is the bucket of the folder, in which its programs are`, async (context) => {
    const { folder, member, run } = open(context);
    const script = `require(${JSON.stringify(path.join(path.dirname(launcher), 'index.cjs'))}).locks.query().then(({ held }) => console.log(held.map(({ name }) => name).join()))`;
    writeFileSync(path.join(member, 'look.cjs'), script);
    const look = [process.execPath, path.join(member, 'look.cjs')];
    assert.equal((await run(node, ['--project', 'run', 'db', '--', ...look])).out, 'db\n');
    assert.equal((await run(node, ['run', '-w', '3', '--project', 'db', '--', ...look])).out, 'db\n');
    assert.equal((await run(node, ['run', 'db', '--', ...look])).out, '\n');
    assert.equal((await run(node, ['run', 'db', 'echo', '--project'])).out, '--project\n');
    assert.equal((await run(node, ['run', '--bucket', folder, 'db', '--', ...look])).out, 'db\n');
    assert.equal((await run(node, ['--project', 'run', 'db', '--', ...look], { env: { NAVLOCK_BUCKET: 'red' } })).out, 'db\n');
  });
}

test('a program and a command as the README has them take turns', async (context) => {
  const { folder, member } = open(context);
  const readme = readFileSync(fileURLToPath(new URL('../../../../README.md', import.meta.url)), 'utf8');
  const example = (language, begin) => readme.split('```').find((part) => part.startsWith(`${language}\n${begin}`)).slice(language.length + 1);
  const program = example('js', "import { locks } from 'navlock';").replace(/^  \/\/ .*$/m, "  console.log('held');\n  for await (const _ of process.stdin);");
  const [command] = example('sh', 'navlock --project run').split('\n').filter((line) => line.includes('--nonblock'));
  writeFileSync(path.join(member, 'main.mjs'), program);
  mkdirSync(path.join(folder, 'node_modules'));
  symlinkSync(path.dirname(path.dirname(launcher)), path.join(folder, 'node_modules', 'navlock'));
  const bin = path.join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(path.join(bin, 'navlock'), `#!/bin/sh\nexec '${runtimes.node[0]}' '${launcher}' "$@"\n`, { mode: 0o755 });
  writeFileSync(path.join(bin, 'make'), '#!/bin/sh\necho "made $1"\n', { mode: 0o755 });
  const { socket, remove } = openPlace();
  context.after(remove);
  const options = { cwd: member, env: { PATH: `${bin}:${process.env.PATH}`, NAVLOCK_SOCKET: socket }, timeout: 20_000 };
  const holder = spawn(runtimes.node[0], ['main.mjs'], { ...options, stdio: ['pipe', 'pipe', 'inherit'] });
  await once(holder.stdout, 'data');
  const ask = () => spawnSync('sh', ['-c', command], { ...options, encoding: 'utf8' });
  const refused = ask();
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /^navlock: "db" is held by node main\.mjs\[/);
  holder.stdin.end();
  assert.deepEqual(await once(holder, 'close'), [0, null]);
  assert.equal(ask().stdout, 'made backup\n');
});

test('doctor says what came with the package, which bucket the folder has and why', async (context) => {
  const { folder, run } = open(context);
  const { out, code } = await run('node', ['doctor']);
  const lines = out.split('\n');
  assert.match(lines[0], /^ok {4}addon: .*navlock\.node, on Node \d+\./);
  assert.equal(lines[1], `ok    package: its program is ${program}`);
  assert.ok(lines.includes(`ok    project: "${folder}", a workspace (workspaces in package.json), is the bucket of programs in JavaScript here; '--project' uses it`), out);
  assert.match(out, /^ok {4}broker: not running/m);
  assert.equal(code, 0);
  const json = (await run('node', ['--color', 'never', 'doctor', '--json'], { env: { NAVLOCK_BUCKET: 'red' } })).out.trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(json[0].what, 'addon');
  assert.ok(json.some(({ what }) => what === 'broker'));
});

test('doctor takes the launcher in the PATH for what it is', async (context) => {
  const { folder, run } = open(context);
  const bin = path.join(folder, 'node_modules', '.bin');
  mkdirSync(bin, { recursive: true });
  symlinkSync(launcher, path.join(bin, 'navlock'));
  const { out } = await run('node', ['doctor'], { env: { PATH: `${bin}:${process.env.PATH}` } });
  assert.match(out, new RegExp(`^ok {4}program: ${bin}/navlock starts ${program}$`, 'm'));
  assert.doesNotMatch(out, /NAVLOCK_LAUNCHER/);
});

test('a working folder that was removed is told, with what to do', async (context) => {
  const { folder, run } = open(context);
  const gone = path.join(folder, 'gone');
  mkdirSync(gone);
  const script = `rmdir "$PWD"; exec "$0" "$@"`;
  const said = await new Promise((resolve) => {
    const child = spawn('sh', ['-c', script, runtimes.node[0], launcher, 'doctor'], { cwd: gone, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, NAVLOCK_BUCKET: '' } });
    let out = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
    child.on('close', (code) => resolve({ out, code }));
  });
  assert.match(said.out, /^warn {2}project: the working folder cannot be used: .*; change to another one$/m);
  await run('node', ['daemon', 'stop']);
});
