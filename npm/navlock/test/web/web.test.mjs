// `navlock web` in a real browser.
//
// This is one file because its tests share one browser, which takes seconds to start, and come one after the other:
// files of tests run beside each other, each in a process of its own.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, createServer as createRelay } from 'node:net';
import path from 'node:path';
import process from 'node:process';
import { after, before, test } from 'node:test';

import { openPlace } from '../kit/place.mjs';
import { startEtcd } from '../kit/etcd.mjs';
import { LIBRARY, ask, browse, killAtOnce, noBrowser, noMachines, open } from './site.mjs';
import { pending, play } from './scene.mjs';

const options = { skip: noBrowser, timeout: 120_000 };
const TIMEOUT = 30_000;

let browser;
before(async () => { browser = noBrowser ? undefined : await browse(); });
after(async () => { await browser?.close(); });

/** Opens a place and a page that looks at it. Both end with the test. */
async function look(context, { web = [], page: pageOptions, ...site } = {}) {
  const place = open(site);
  browser.wrong.length = 0;
  browser.asked.length = 0;
  const served = await place.web(...web);
  const page = await browser.page(pageOptions);
  page.setDefaultTimeout(TIMEOUT);
  context.after(async () => {
    await page.context().close();
    await place.close();
  });
  await page.goto(served.address.href);
  await page.locator('#pulse[data-is=live], #pulse[data-is=off]').waitFor();
  const row = (name) => page.locator('#names tbody tr').filter({ has: page.getByRole('link', { name, exact: true }) });
  return { ...place, served, page, row };
}

/** Asserts that the page has sent requests to no other server, and that it had no errors. */
function assertQuiet(served) {
  assert.deepEqual(browser.wrong, []);
  assert.deepEqual(browser.asked.filter((url) => new URL(url).origin !== served.origin), []);
}

const says = async (locator, pattern) => locator.filter({ hasText: pattern }).first().waitFor({ timeout: TIMEOUT });

test('a lock is shown as it is taken, waited for, handed on and let go', options, async (context) => {
  const { served, page, row, hold, ask: request } = await look(context);
  await says(page.locator('#now-head'), 'No broker runs');
  const first = await hold('--why', 'first', 'db');
  await says(row('db'), `worker[${first.pid}] (first)`);
  const second = request('--why', 'second', 'db');
  await says(page.locator('#now-head'), '1 request waits');
  await says(page.locator('#tree li[data-why=held]'), '(second) waits for db');
  assert.match(await page.locator('#tree li[data-why=held]').innerText(), /hard: waits for the lock/);
  await row('db').getByRole('link', { name: 'db' }).click();
  await says(page.locator('#holders'), 'first');
  assert.equal(await page.title(), 'db · navlock');
  await says(page.locator('#queue tbody tr'), 'hard: it is held (second)');
  await first.release();
  const pid = await second.held();
  await says(page.locator('#holders'), `worker[${pid}]`);
  await says(page.locator('#past tbody'), 'released');
  await page.locator('#drawing rect.bar').nth(1).waitFor({ state: 'attached' });
  await page.locator('#drawing line.waited').first().waitFor({ state: 'attached' });
  assert.equal(await page.locator('#drawing rect.bar').count(), 2);
  await second.release();
  await says(page.locator('#name-sum'), 'Nobody holds it and nobody waits for it.');
  await says(page.locator('#past tbody tr'), 'released');
  assertQuiet(served);
});

test('a holder that is killed goes from the page, and who waited is shown in its place', options, async (context) => {
  const { served, page, row, hold, ask: request } = await look(context);
  const first = await hold('db');
  const second = request('--why', 'heir', 'db');
  await says(page.locator('#now-head'), '1 request waits');
  process.kill(first.pid, 'SIGKILL');
  await second.held();
  await says(row('db'), 'heir');
  await says(page.locator('#now-head'), 'Nobody waits.');
  await page.locator('nav a[data-view=clients]').click();
  await says(page.locator('#clients-head'), '1 process uses the locks.');
  await second.release();
  await says(page.locator('#clients-head'), 'Nobody uses the locks.');
  assertQuiet(served);
});

test('a lock that is stolen under the page is shown with who has stolen it', options, async (context) => {
  const { served, page, row, hold } = await look(context);
  const victim = await hold('db');
  await row('db').getByRole('link', { name: 'db' }).click();
  const thief = await hold('--steal', '--why', 'thief', 'db');
  await victim.child.ended;
  await says(page.locator('#holders'), `worker[${thief.pid}]`);
  await says(page.locator('#past tbody tr'), 'stolen');
  await page.locator('#drawing path.cross').waitFor({ state: 'attached' });
  assertQuiet(served);
});

test('the page goes on when its broker is killed, and shows the next one', options, async (context) => {
  const { served, page, row, hold, run } = await look(context);
  const holder = await hold('db');
  await says(row('db'), `worker[${holder.pid}]`);
  process.kill(JSON.parse(run('daemon', 'status', '--json').stdout).pid, 'SIGKILL');
  const other = await hold('other');
  await says(row('other'), `worker[${other.pid}]`);
  await says(row('db'), `worker[${holder.pid}]`);
  await holder.release();
  await other.release();
  run('daemon', 'stop');
  await says(page.locator('#pulse-text'), 'no broker runs');
  await says(page.locator('#now-head'), 'No broker runs: nobody holds anything.');
  assertQuiet(served);
});

test('a holder that is stopped is said to be, with what has it go on, until it does', options, async (context) => {
  const { served, page, hold, ask: request } = await look(context);
  const holder = await hold('db');
  const waiter = request('db');
  await says(page.locator('#tree li').first(), 'keeps 1 request waiting');
  assert.equal(await page.locator('#tree .stopped').count(), 0);
  process.kill(holder.pid, 'SIGSTOP');
  await says(page.locator('#tree li').first(), `is stopped: kill -CONT ${holder.pid} has it go on`);
  process.kill(holder.pid, 'SIGCONT');
  await page.locator('#tree .stopped').waitFor({ state: 'detached' });
  await holder.release();
  await waiter.held();
  await waiter.release();
  assertQuiet(served);
});

test('a broker that is stopped is said to be, and who waits is shown on once it goes on', options, async (context) => {
  const { served, page, row, hold, run } = await look(context);
  const holder = await hold('db');
  await row('db').waitFor();
  const { pid } = JSON.parse(run('daemon', 'status', '--json').stdout);
  process.kill(pid, 'SIGSTOP');
  await says(page.locator('#pulse-text'), 'the broker is stopped');
  await says(page.locator('#now-more'), `process ${pid} is stopped, so that nobody is granted anything: 'kill -CONT ${pid}' has it go on.`);
  assert.equal(await row('db').count(), 1);
  process.kill(pid, 'SIGCONT');
  await says(page.locator('#pulse-text'), 'live');
  await hold('other');
  await row('other').waitFor();
  await holder.release();
  await row('db').waitFor({ state: 'detached' });
  assertQuiet(served);
});

test('a page that comes when there is no room waits until there is, and open pages are told of changes', options, async (context) => {
  const { served, page, row, hold } = await look(context);
  const events = `${new URL(page.url()).pathname}events?token=${served.token}`;
  // With the page that was opened before, these are more than are served.
  const pages = Array.from({ length: 128 }, () => {
    const socket = connect(served.port, '127.0.0.1');
    socket.write(`GET ${events} HTTP/1.1\r\nhost: 127.0.0.1:${served.port}\r\n\r\n`);
    return socket.resume();
  });
  context.after(() => pages.forEach((socket) => socket.destroy()));
  const state = ask({ port: served.port, path: `/api/state?token=${served.token}`, agent: false });
  await hold('db');
  await row('db').waitFor();
  for (const socket of pages) socket.destroy();
  assert.equal((await state).status, 200);
});

test('a deadlock of Node and a command is shown, and in the terminal with the same words', options, async (context) => {
  const { served, page, hold, script, run } = await look(context);
  const program = script(`
    import { report } from ${JSON.stringify(LIBRARY)};
    report({ deadlocks: 'warn' });
    process.stdin.on('end', () => process.exit());
    const told = new Promise((resolve) => process.stdin.once('data', resolve));
    process.on('warning', ({ code, message }) => console.log(JSON.stringify([code, message])));
    await locks.request('accounts', async () => {
      console.log('holds');
      await told;
      await locks.request('ledger', () => {});
    });`);
  assert.equal(await program.line(), 'holds');
  const command = await hold('ledger');
  command.child.stdin.write('accounts\n');
  program.stdin.write('\n');
  const steps = [new RegExp(`node\\[${program.pid}\\] holds accounts.*, and inside that,`), new RegExp(`worker\\[${command.pid}\\] holds ledger.*, and inside that,`)];
  await says(page.locator('#now-deadlock'), '1 deadlock: some wait for each other');
  await page.getByRole('link', { name: 'See who' }).click();
  const cycle = await page.locator('.cycle').innerText();
  for (const step of steps) assert.match(cycle, step);
  // The program that waits is told of the deadlock, too.
  const [code, message] = JSON.parse(await program.line());
  assert.equal(code, 'NAVLOCK_DEADLOCK');
  const text = run('query', '--tree').stdout;
  for (const told of [message, text]) {
    assert.match(told, /^deadlock: these wait for each other, and none goes on unless one of them ends\n/);
    assert.match(told, new RegExp(`node\\[${program.pid}\\] .*holds "?accounts.* inside it waits for "?ledger`));
    assert.match(told, new RegExp(`worker\\[${command.pid}\\] .*holds "?ledger`));
  }
  assert.ok(text.includes(`kill ${program.pid}    # ends node[${program.pid}]`), text);
  program.kill();
  await says(page.locator('#deadlocks-head'), 'No deadlock is known.');
  assertQuiet(served);
});

test('commands that wait for each other are shown as a deadlock, with what ends it', options, async (context) => {
  const site = await look(context);
  await play(site);
  const { page, served } = site;
  await says(page.locator('#count-deadlocks'), '1');
  await says(page.locator('#now-deadlock'), '1 deadlock: some wait for each other');
  for (const name of ['accounts', 'ledger']) await says(page.locator('.root').filter({ hasText: 'A cycle' }), `holds ${name}`);
  await page.getByRole('link', { name: 'See who' }).click();
  const cycle = page.locator('.cycle');
  await says(cycle, 'None goes on unless one of them ends.');
  const text = await cycle.innerText();
  for (const step of [/billing\[\d+\] holds accounts.*, and inside that,/, /report\[\d+\] holds ledger.*, and inside that,/]) assert.match(text, step);
  for (const name of ['accounts', 'ledger']) assert.match(text, new RegExp(`waits for ${name} .*, which is held by`));
  const kill = await cycle.locator('code').first().innerText();
  assert.match(kill, /^kill \d+$/);
  assert.match(await cycle.innerText(), new RegExp(`${kill} \\(ends navlock run true\\[${kill.split(' ')[1]}\\]\\)`));
  process.kill(Number(kill.split(' ')[1]), 'SIGKILL');
  await says(page.locator('#deadlocks-head'), 'No deadlock is known.');
  assertQuiet(served);
});

test('where nobody says what is inside what, a deadlock is called possible', options, async (context) => {
  const { served, page, script } = await look(context);
  const program = (first, second) => script(`
    const told = new Promise((resolve) => process.stdin.once('data', resolve).on('end', () => process.exit()));
    await locks.request('${first}', async () => {
      console.log('holds');
      await told;
      await locks.request('${second}', () => {});
    });`);
  const pair = [program('accounts', 'ledger'), program('ledger', 'accounts')];
  for (const one of pair) await one.line();
  for (const one of pair) one.stdin.write('\n');
  await says(page.locator('#now-deadlock'), '1 possible deadlock');
  await page.locator('nav a[data-view=deadlocks]').click();
  await says(page.locator('.cycle.possible'), 'perhaps inside that');
  pair[0].kill();
  await says(page.locator('#deadlocks-head'), 'No deadlock is known.');
  assertQuiet(served);
});

test('to steal, the page asks first and names the victim, and says so when somebody else holds it by then', options, async (context) => {
  const { served, page, row, hold, ask: request } = await look(context, { web: ['--allow-steal'] });
  const victim = await hold('--why', 'victim', 'db');
  const next = request('db');
  await says(page.locator('#now-head'), '1 request waits');
  await row('db').getByRole('link', { name: 'db' }).click();
  const button = page.getByRole('button', { name: 'Steal…' });
  await button.click();
  const dialog = page.getByRole('dialog');
  await says(dialog, `worker[${victim.pid}]`);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'ask-no');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  assert.equal(victim.child.exitCode, null);
  // Another process holds the lock by the time the theft is confirmed.
  await button.click();
  await victim.release();
  await next.held();
  await dialog.getByRole('button', { name: `Steal from worker[${victim.pid}]` }).click();
  // The page's server says this, or the broker, if the server has not been told of the other holder yet.
  await says(page.locator('#ask-failed'), /somebody else holds it by now.*; nothing was stolen/);
  await page.keyboard.press('Escape');
  await button.click();
  await dialog.getByRole('button', { name: /Steal from/ }).click();
  await dialog.waitFor({ state: 'hidden' });
  assert.deepEqual(await next.child.ended, [75, null]);
  await says(page.locator('#past tbody tr'), /stolen by navlock web/);
  assert.deepEqual(browser.wrong.filter((text) => !text.includes('409')), []);
  browser.wrong.length = 0;
  assertQuiet(served);
});

test('of a name with more holders than are listed it is stolen from all', options, async (context) => {
  const { served, page, row, script } = await look(context, { web: ['--allow-steal'] });
  const holder = script(`
    process.stdin.on('end', () => process.exit()).resume();
    const lost = [];
    const held = Array.from({ length: 700 }, () => new Promise((resolve) => {
      lost.push(locks.request('db', { mode: 'shared' }, () => { resolve(); return new Promise(() => {}); }).catch(({ name }) => name));
    }));
    await Promise.all(held);
    console.log('held');
    console.log([...new Set(await Promise.all(lost))].join());`);
  assert.equal(await holder.line(), 'held');
  await says(row('db'), 'and 699 others');
  await row('db').getByRole('link', { name: 'db' }).click();
  await page.getByRole('button', { name: 'Steal…' }).first().click();
  const dialog = page.getByRole('dialog');
  await says(dialog, 'these 700, as all hold it');
  await dialog.getByRole('button', { name: 'Steal from 700' }).click();
  await dialog.waitFor({ state: 'hidden' });
  assert.equal(await holder.line(), 'AbortError');
  assertQuiet(served);
});

test('without --allow-steal the page offers nothing that changes anything', options, async (context) => {
  const { page, row, hold } = await look(context);
  await hold('db');
  await row('db').getByRole('link', { name: 'db' }).click();
  await says(page.locator('#holders'), 'exclusive');
  assert.equal(await page.getByRole('button', { name: /Steal/ }).count(), 0);
  const status = await page.evaluate(async () => (await fetch('api/steal', { method: 'POST', headers: { 'x-navlock': 'steal' }, body: '{"key":1,"version":1}' })).status);
  assert.equal(status, 403);
});

test('texts of others are texts: markup, what turns lines around, what is too long', options, async (context) => {
  const { served, page, script } = await look(context, { page: { viewport: { width: 320, height: 640 } } });
  const names = ['<img src=x onerror=alert(1)>', 'a\u202Etxt.exe', 'line\nbreak\u0000', 'lone\uD800', '', '"quoted"', '</script><b>', '__proto__', '  space '];
  const holder = script(`
    process.stdin.on('end', () => process.exit()).resume();
    for (const name of [...${JSON.stringify(names)}, 'x'.repeat(1 << 20)]) void locks.request(name, () => new Promise(() => {}));
    void locks.request('last', () => { console.log('held'); return new Promise(() => {}); });`);
  assert.equal(await holder.line(), 'held');
  await page.locator('#names tbody tr').nth(names.length + 1).waitFor();
  const texts = await page.locator('#names a.name').allInnerTexts();
  for (const shown of ['<img src=x onerror=alert(1)>', String.raw`"a\u{202e}txt.exe"`, String.raw`"line\nbreak\u{0}"`, String.raw`"lone\u{d800}"`, '""', String.raw`"\"quoted\""`, '</script><b>', '__proto__', '"  space "']) {
    assert.ok(texts.includes(shown), `${shown} in ${texts.map((text) => text.slice(0, 100))}`);
  }
  assert.ok(texts.some((text) => /^x{72}… \(1,048,576 characters\)$/.test(text)));
  assert.equal(await page.locator('main img, main b').count(), 0);
  for (const name of [0, 1, names.length]) {
    await page.locator('nav a[data-view=now]').click();
    await page.locator('#names a.name').nth(name).click();
    await says(page.locator('#holders'), 'exclusive');
    await narrow(page);
  }
  await narrow(page);
  assertQuiet(served);
});

/** Asserts that the page is not wider than the screen. */
async function narrow(page) {
  const { wide, screen, widest } = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    screen: innerWidth,
    widest: [...document.querySelectorAll('body *')].filter((node) => node.getClientRects().length && node.getBoundingClientRect().right > innerWidth + 1 && !node.closest('.unseen')).map((node) => node.outerHTML.slice(0, 80)),
  }));
  assert.ok(wide <= screen, `${wide} > ${screen}: ${widest.slice(0, 3)}`);
  assert.deepEqual(widest, []);
}

test('on a phone and in the dark nothing is wider than the screen, and all is to be read', options, async (context) => {
  for (const colorScheme of ['light', 'dark']) {
    const site = await look(context, { page: { viewport: { width: 320, height: 640 }, colorScheme } });
    await play(site);
    const { page, served } = site;
    await says(page.locator('#count-deadlocks'), '1');
    for (const view of ['now', 'deadlocks', 'clients', 'machines', 'now']) {
      await page.locator(`nav a[data-view=${view}]`).click();
      await page.locator(`main > section#${view}:visible`).waitFor();
      await narrow(page);
      assert.deepEqual(await page.evaluate(faint), [], `${view}, ${colorScheme}`);
    }
    await page.getByRole('link', { name: 'build-cache' }).first().click();
    await page.locator('#drawing svg').waitFor();
    await narrow(page);
    assert.deepEqual(await page.evaluate(faint), [], `a name, ${colorScheme}`);
    assertQuiet(served);
  }
});

/** The texts with a contrast of less than 4.5 to 1 (WCAG 2.2, 1.4.3). This function runs in the page. */
function faint() {
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * channel(red / 255) + 0.7152 * channel(green / 255) + 0.0722 * channel(blue / 255);
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const says = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!says || !node.checkVisibility() || node.closest('.unseen, .skip, option, noscript, svg')) continue;
    let ground = node;
    while (ground && (parse(getComputedStyle(ground).backgroundColor)[3] ?? 1) < 1) ground = ground.parentElement;
    const [one, other] = [getComputedStyle(node).color, getComputedStyle(ground ?? document.body).backgroundColor].map((color) => light(parse(color)));
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${node.textContent.slice(0, 40)}: ${ratio.toFixed(1)}`);
  }
  return found;
}

test('all of it is reached by keyboard, and it is seen where one is', options, async (context) => {
  const { served, page, hold, ask: request } = await look(context, { web: ['--allow-steal'] });
  await hold('--why', 'holder', 'db');
  request('db');
  await says(page.locator('#now-head'), '1 request waits');
  const walk = async () => {
    const seen = [];
    for (let step = 0; step < 40; step++) {
      await page.keyboard.press('Tab');
      const at = await page.evaluate(() => {
        const node = document.activeElement;
        if (node === document.body) return undefined;
        const { outlineStyle, outlineWidth } = getComputedStyle(node);
        return { what: node.id || node.dataset.view || node.textContent.trim(), isSeen: outlineStyle !== 'none' && outlineWidth !== '0px' };
      });
      if (!at) break;
      assert.ok(at.isSeen, `the focus is not seen at ${at.what}`);
      if (seen.includes(at.what) && seen[0] === at.what) break;
      seen.push(at.what);
    }
    return seen;
  };
  const seen = await walk();
  for (const what of ['Skip to the content', 'navlock', 'now', 'deadlocks', 'clients', 'machines', 'bucket', 'filter', 'db']) assert.ok(seen.includes(what), `${what} in ${seen}`);
  assert.equal(seen[0], 'Skip to the content');
  // By keys alone: to a name, to its holder, and to the question. A change meanwhile does not take the focus away.
  await page.getByRole('link', { name: 'db', exact: true }).last().focus();
  const third = request('db');
  await says(page.locator('#now-head'), '2 requests wait');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'db');
  await page.keyboard.press('Enter');
  await says(page.locator('#queue tbody'), '2');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Steal…');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  for (const landmark of ['banner', 'navigation', 'main', 'search', 'contentinfo']) assert.equal(await page.getByRole(landmark).count(), 1, landmark);
  third.child.kill();
  assertQuiet(served);
});

test('with etcd the other machines are shown, with what they hold and wait for', { ...options, skip: noBrowser || noMachines }, async (context) => {
  const { folder, remove } = openPlace();
  const etcd = await startEtcd(folder);
  const elsewhere = open({ etcd, host: 'elsewhere' });
  const { served, page, row, hold } = await look(context, { etcd });
  context.after(async () => {
    await elsewhere.close();
    etcd.kill('SIGKILL');
    await once(etcd, 'exit');
    remove();
  });
  const holder = await hold('--why', 'here', 'db');
  // A broker looks only at those buckets of etcd that are used on its own machine.
  await hold('other');
  await row('db').waitFor();
  const waiter = elsewhere.ask('--why', 'there', 'db');
  await says(page.locator('#tree li[data-why=held]'), '@elsewhere (there) waits for db');
  await page.locator('nav a[data-view=machines]').click();
  await says(page.locator('#machines-head'), '2 machines use the locks.');
  await says(page.locator('#machine-list li'), /elsewhere[^]*Waits for\s*1 lock/);
  await says(page.locator('#machine-list li'), /this machine[^]*Holds\s*2 locks/);
  await page.locator('nav a[data-view=clients]').click();
  await says(page.locator('#client-table tbody tr'), /elsewhere/);
  await holder.release();
  await waiter.held();
  await page.locator('nav a[data-view=now]').click();
  await says(row('db'), '@elsewhere (there)');
  await waiter.release();
  assertQuiet(served);
});

test('a queue behind a machine that has died is shown with that machine, until its lock is evicted', { ...options, skip: noBrowser || noMachines }, async (context) => {
  const { folder, remove } = openPlace();
  const etcd = await startEtcd(folder);
  // No lease ends by itself before the test is over.
  etcd.settings = path.join(folder, 'config.toml');
  writeFileSync(etcd.settings, `[stores.main]\netcd = ["${etcd.endpoint}"]\ntime-to-live = 600\n`);
  const elsewhere = open({ etcd, host: 'elsewhere' });
  const { served, page, row, ask: request, run } = await look(context, { etcd });
  context.after(async () => {
    await elsewhere.close();
    etcd.kill('SIGKILL');
    await once(etcd, 'exit');
    remove();
  });
  const holder = await elsewhere.hold('--why', 'nightly', 'db');
  const { pid } = JSON.parse(elsewhere.run('daemon', 'status', '--json').stdout);
  const waiter = request('db');
  await row('db').waitFor();
  // A holder tells the process id of its command only once it holds the lock.
  const isShown = () => says(page.locator('#tree li').first(), new RegExp(`worker\\[${holder.pid}\\] .*@elsewhere \\(nightly\\) holds db`));
  await isShown();
  // All at once, so that no process is left there that would start another broker or release a lock.
  killAtOnce(holder.child.pid, holder.pid, pid);
  await holder.child.ended;
  await isShown();
  await says(page.locator('#tree li').first(), 'keeps 1 request waiting');
  await page.locator('nav a[data-view=machines]').click();
  await says(page.locator('#machine-list li'), /elsewhere[^]*Holds\s*1 lock/);
  // The command that ends the lock is in the output of `navlock query`.
  const line = /^ {2}or (navlock evict db \S+) {4}# removes it at once, if elsewhere is gone: otherwise it ends by itself when its lease has run out$/m;
  const [, evict] = line.exec(run('query', '--tree').stdout);
  assert.match(run(...evict.split(' ').slice(1)).stdout, /^removed /);
  await waiter.held();
  await page.locator('nav a[data-view=now]').click();
  await says(page.locator('#now-head'), 'Nobody waits.');
  await waiter.release();
  assertQuiet(served);
});

test('the table is filtered by bucket and by words', options, async (context) => {
  const { page, row, hold } = await look(context);
  await hold('--why', 'morning', 'db');
  await hold('--bucket', 'shop', '--why', 'evening', 'orders');
  await row('orders').waitFor();
  await page.locator('#filter').fill('EVENING');
  await row('db').waitFor({ state: 'detached' });
  assert.equal(await row('orders').count(), 1);
  await page.locator('#filter').fill('');
  await page.locator('#bucket').selectOption('default');
  await row('orders').waitFor({ state: 'detached' });
  await row('db').waitFor();
});

test('a bucket that the command names is shown first', options, async (context) => {
  const bucket = 'a/b+c d#é';
  const { page, row, hold } = await look(context, { web: ['--bucket', bucket] });
  await hold('--bucket', bucket, 'orders');
  await hold('db');
  await row('orders').waitFor();
  assert.equal(await row('db').count(), 0);
  assert.equal(await page.locator('#bucket').inputValue(), bucket);
  await page.locator('#bucket').selectOption('');
  await row('db').waitFor();
});

test('the token does not stay in the address, and nobody gets in without it', options, async (context) => {
  const { served, page } = await look(context);
  assert.match(page.url(), new RegExp(`^${served.origin}/[0-9a-f]{12}/$`));
  const [cookie, ...others] = await page.context().cookies();
  assert.deepEqual(others, []);
  assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict' && !page.url().includes(cookie.value) && cookie.value !== served.token);
  assert.equal(await page.evaluate(() => document.cookie), '');
  const path = new URL(page.url()).pathname;
  await page.goBack();
  assert.ok(!page.url().includes('token'), page.url());
  const stranger = await browser.page();
  for (const at of ['/', path, '/?token=x']) {
    assert.equal((await stranger.goto(`${served.origin}${at}`)).status(), 401);
  }
  await stranger.context().close();
});

test('a page of another origin can neither read nor steal nor show it', options, async (context) => {
  const { served, page, row, hold } = await look(context, { web: ['--allow-steal'] });
  const victim = await hold('db');
  await row('db').waitFor();
  const path = new URL(page.url()).pathname;
  const seen = [];
  const server = createServer((request, response) => {
    seen.push(request.headers.cookie);
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>other</title><p>other');
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  context.after(() => server.close());
  const { port } = server.address();
  // A page of another server, in the same browser with the same cookies. It even knows the path.
  const other = await page.context().newPage();
  for (const host of ['127.0.0.1', 'localhost']) {
    await other.goto(`http://${host}:${port}/`);
    const got = await other.evaluate(async ({ origin, path, token }) => {
      const outcome = (promise) => promise.then((value) => value, (error) => error.name);
      const found = {};
      const read = (url, init) => outcome(fetch(url, init).then((answer) => answer.text()));
      found.read = await read(`${origin}${path}api/state`, { credentials: 'include' });
      found.readByToken = await read(`${origin}/api/state?token=${token}`);
      found.steal = await read(`${origin}${path}api/steal`, { method: 'POST', credentials: 'include', headers: { 'x-navlock': 'steal' }, body: '{}' });
      found.simple = await read(`${origin}${path}api/steal`, { method: 'POST', credentials: 'include', body: '{"key":1,"version":1}' });
      found.opaque = await outcome(fetch(`${origin}${path}api/state`, { mode: 'no-cors', credentials: 'include' }).then((answer) => `${answer.type} ${answer.status}`));
      const loads = (node, attributes) => new Promise((resolve) => {
        Object.assign(node, attributes, { onload: () => resolve('loaded'), onerror: () => resolve('failed') });
        document.body.append(node);
      });
      found.image = await loads(new Image(), { src: `${origin}${path}` });
      found.script = await loads(document.createElement('script'), { src: `${origin}${path}page.js` });
      found.style = await loads(Object.assign(document.createElement('link'), { rel: 'stylesheet' }), { href: `${origin}${path}page.css` });
      found.events = await new Promise((resolve) => {
        const source = new EventSource(`${origin}${path}events`, { withCredentials: true });
        source.onmessage = source.onopen = () => resolve('opened');
        source.onerror = () => resolve(source.readyState === EventSource.CLOSED ? 'closed' : 'again');
      });
      const frame = document.createElement('iframe');
      await loads(frame, { src: `${origin}/?token=${token}` });
      found.frame = await outcome((async () => frame.contentDocument?.body.textContent ?? 'nothing')());
      return found;
    }, { origin: served.origin, path, token: served.token });
    // An opaque answer tells the page only that a server has answered, and the request may also fail.
    assert.match(got.opaque, /^(opaque 0|TypeError)$/);
    delete got.opaque;
    assert.deepEqual(got, { read: 'TypeError', readByToken: 'TypeError', steal: 'TypeError', simple: 'TypeError', image: 'failed', script: 'failed', style: 'failed', events: 'closed', frame: 'nothing' }, host);
    // A browser sends a form without a preflight request, and leaves the page for the answer.
    const answered = other.waitForResponse((answer) => answer.url().includes('api/steal'));
    await other.evaluate(({ origin, path }) => {
      const form = Object.assign(document.createElement('form'), { method: 'post', action: `${origin}${path}api/steal`, enctype: 'text/plain' });
      form.append(Object.assign(document.createElement('input'), { name: '{"key":1,"version":1,"x":"', value: '"}' }));
      document.body.append(form);
      form.submit();
    }, { origin: served.origin, path });
    assert.equal((await answered).status(), 403);
    await other.waitForURL(`${served.origin}${path}api/steal`);
  }
  assert.deepEqual(seen.filter(Boolean), [], 'it is not sent our cookie');
  await other.close();
  assert.equal(victim.child.exitCode, null);
  await row('db').waitFor();
});

test('a name that somebody makes resolve to this machine is refused', options, async (context) => {
  const { served, page } = await look(context);
  const [cookie] = await page.context().cookies();
  const path = new URL(page.url()).pathname;
  const get = (host, at, headers = {}) => ask({ port: served.port, path: at, headers: { host, ...headers } });
  const ours = `${cookie.name}=${cookie.value}`;
  for (const host of ['evil.example', `evil.example:${served.port}`, '127.0.0.1', '127.0.0.1:1', `127.0.0.1.evil.example:${served.port}`]) {
    assert.equal((await get(host, `${path}api/state`, { cookie: ours })).status, 403, host);
    assert.equal((await get(host, `/?token=${served.token}`)).status, 403, host);
  }
  for (const host of ['127.0.0.1', 'localhost', '[::1]']) {
    const { status, headers } = await get(`${host}:${served.port}`, `${path}api/state`, { cookie: ours });
    assert.equal(status, 200, host);
    assert.equal(headers['access-control-allow-origin'], undefined);
  }
});

test('many pages show the same, by one look at the broker', options, async (context) => {
  const { page, hold } = await look(context);
  const pages = [page];
  for (let count = 0; count < 4; count++) {
    const another = await page.context().newPage();
    await another.goto(page.url());
    pages.push(another);
  }
  await hold('db');
  for (const one of pages) await one.locator('#names tbody tr').waitFor();
  const metrics = await page.evaluate(() => fetch('metrics').then((answer) => answer.text()));
  assert.match(metrics, /^navlock_broker_lookers 1$/m, 'the broker is looked at once');
});

test('a page whose connection breaks or stalls shows how it is once it is back, by itself', options, async (context) => {
  const place = open();
  const file = path.join(place.folder, 'web.sock');
  const { address } = await place.web('--unix', file, '--quiet');
  // A proxy forwards a port, as ssh does.
  const connections = new Set();
  let isCut = false;
  const proxy = createRelay((down) => {
    const up = connect(file);
    const connection = { down, up };
    connections.add(connection);
    for (const [from, to] of [[down, up], [up, down]]) from.on('error', () => to.destroy()).on('close', () => to.destroy());
    down.on('close', () => connections.delete(connection));
    if (isCut) return void down.destroy();
    down.pipe(up).pipe(down);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const page = await browser.page();
  page.setDefaultTimeout(TIMEOUT);
  context.after(async () => {
    await page.context().close();
    proxy.close();
    await place.close();
  });
  await page.goto(`http://127.0.0.1:${proxy.address().port}/${address.search}`);
  await says(page.locator('#pulse-text'), /live|no broker runs/);
  const first = await place.hold('first');
  await says(page.locator('#names tbody'), 'first');
  // The proxy breaks its connections, and accepts no new ones for a while.
  isCut = true;
  for (const { down } of connections) down.destroy();
  await says(page.locator('#pulse-text'), 'navlock web does not answer; trying again');
  const second = await place.hold('second');
  await first.release();
  isCut = false;
  await says(page.locator('#pulse-text'), 'live');
  await says(page.locator('#names tbody'), 'second');
  await page.locator('#names tbody tr').nth(1).waitFor({ state: 'detached' });
  assert.deepEqual(await page.locator('#names a.name').allInnerTexts(), ['second']);
  // The proxy passes nothing on while more happens than is kept for a page.
  for (const { up } of connections) up.unpipe().pause();
  await second.release();
  const busy = place.script(`
    for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 5000 }, (_, name) => locks.request(String(name), () => {})));
    console.log('done');`);
  assert.equal(await busy.line(), 'done');
  const third = await place.hold('third');
  for (const { up, down } of connections) up.pipe(down).resume();
  await says(page.locator('#names tbody'), 'third');
  await page.locator('#names tbody tr').nth(1).waitFor({ state: 'detached' });
  assert.deepEqual(await page.locator('#names a.name').allInnerTexts(), ['third']);
  await third.release();
});

test('a page that nobody sees gives its connection back, and shows how it is when it is seen again', options, async (context) => {
  const { page, row, hold } = await look(context);
  const first = await hold('first');
  await row('first').waitFor();
  const see = (isSeen) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
    document.dispatchEvent(new Event('visibilitychange'));
  }, !isSeen);
  await see(false);
  await says(page.locator('#pulse-text'), 'paused');
  await first.release();
  await hold('second');
  await see(true);
  await row('second').waitFor();
  assert.equal(await row('first').count(), 0);
  await says(page.locator('#pulse-text'), 'live');
});

test('the picture of the README can be drawn', options, async (context) => {
  const site = await look(context);
  await play(site);
  assert.equal(pending(site), 8);
  await says(site.page.locator('#now-head'), '8 requests wait');
  await says(site.page.locator('#tree li[data-why=ahead]'), 'soft: waits behind this request');
});
