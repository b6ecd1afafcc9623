// A made-up scene: four queues that are stuck, a fifth one behind another machine, and a holder for whom nobody
// waits.
//
// As a program it draws the picture of the README: `node test/web/scene.mjs FILE.png`.

import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import { startEtcd } from '../kit/etcd.mjs';
import { openPlace } from '../kit/place.mjs';
import { slim } from './png.mjs';
import { browse, navlock, open } from './site.mjs';

/** Starts all holders and waiters. Some are on another machine, if there is one. */
export async function play(site, elsewhere) {
  const asks = async (...args) => {
    const before = pending(site);
    const asker = site.askAs(...args);
    while (pending(site) <= before) await new Promise((resolve) => setTimeout(resolve, 20));
    return asker;
  };
  // A holder that is idle, and requests that wait for its lock.
  await site.holdAs('make', '--why', 'nightly build', 'build-cache');
  await asks('deploy', '--why', 'to staging', 'build-cache');
  await asks('eslint', '--shared', 'build-cache');
  await asks('tsc', '--shared', 'build-cache');
  // A holder that was stopped.
  const stopped = await site.holdAs('git', '--why', 'release notes', 'git-index');
  process.kill(stopped.pid, 'SIGSTOP');
  await asks('pre-commit', 'git-index');
  // A shared request that could be granted if no other request were before it.
  await site.holdAs('next', '--shared', '--why', 'preview of #4711', 'port:3000');
  await asks('playwright', '--why', 'end to end', 'port:3000');
  await asks('next', '--shared', '--why', 'preview of #4712', 'port:3000');
  // A deadlock: two holders, each of which waits for the other's lock.
  const pair = [await site.holdAs('billing', 'accounts'), await site.holdAs('report', 'ledger')];
  for (const [index, name] of ['ledger', 'accounts'].entries()) {
    const before = pending(site);
    pair[index].child.stdin.write(`${name}\n`);
    while (pending(site) <= before) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  if (elsewhere) {
    // A holder whose machine may be gone.
    await elsewhere.holdAs('publish', '--why', 'release 2.0', 'registry');
    await asks('changelog', 'registry');
  }
  // A holder for whom nobody waits.
  await site.holdAs('importer', '--bucket', 'shop', '--why', 'prices', 'orders');
}

/** How many requests wait, in all buckets. */
export function pending(site) {
  return site.run('query', '--json', '--all-buckets').stdout.split('\n').filter((line) => line.includes('"pending"')).length;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const place = openPlace(navlock);
  const etcd = await startEtcd(place.folder);
  const [site, elsewhere, browser] = [open({ etcd }), open({ etcd, host: 'ci-7' }), await browse()];
  try {
    await play(site, elsewhere);
    const { address } = await site.web();
    const page = await browser.page({ viewport: { width: 940, height: 860 } });
    await page.goto(address.href);
    await page.locator('#count-deadlocks:visible').waitFor();
    await page.locator('#tree .stopped').waitFor();
    await page.locator('#tree li').filter({ hasText: '@ci-7' }).first().waitFor();
    // Without the foot of the page, which names the place on this machine.
    const { width, y: height } = await page.locator('footer').evaluate((footer) => ({ width: innerWidth, y: Math.floor(footer.getBoundingClientRect().top) }));
    const picture = await page.screenshot({ fullPage: true, clip: { x: 0, y: 0, width, height } });
    writeFileSync(process.argv[2] ?? 'web.png', slim(picture));
  } finally {
    await browser.close();
    await elsewhere.close();
    await site.close();
    etcd.kill('SIGKILL');
    await once(etcd, 'exit');
    place.remove();
  }
}
