// Runs tests in pages of Chromium. Each page has a browser context of its own, which a user knows as a private
// window.

import { createReadStream } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

/** The browser's executable. */
export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TYPES = { '.html': 'text/html', '.mjs': 'text/javascript', '.js': 'text/javascript' };
const GRACE = 3_000;

/** @returns {Promise<import('./index.mjs').Session>} */
export async function openBrowser(realm) {
  const { chromium } = await import('playwright-core');
  const server = await serve(ROOT);
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    chromiumSandbox: process.getuid?.() !== 0, // root cannot have a sandbox
    args: ['--disable-gpu', '--disable-quic'],
  });
  const page = `http://127.0.0.1:${server.address().port}/host/test-page.html`;
  return {
    version: browser.version(),
    run: (test) => runInPage(browser, page, { realm, test: test.name }, test.deadline + GRACE),
    async close() {
      await browser.close();
      server.close();
    },
  };
}

async function runInPage(browser, url, job, ms) {
  const context = await browser.newContext();
  let timer;
  try {
    const page = await context.newPage();
    const ended = new Promise((resolve) => {
      page.on('crash', () => resolve({ passed: false, reason: 'the page crashed' }));
      timer = setTimeout(() => resolve({ passed: false, reason: 'the page hangs: it did not even see its own deadline' }), ms);
    });
    const run = async () => {
      await page.goto(url);
      return page.evaluate((job) => globalThis.runJob(job), job);
    };
    return await Promise.race([run(), ended]);
  } catch (error) {
    return { passed: false, reason: `the page ended early: ${error.message.split('\n')[0]}` };
  } finally {
    clearTimeout(timer);
    await context.close();
  }
}

/** Serves the files below `root` on loopback, with the headers without which a page has no shared memory. */
function serve(root) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const file = path.join(root, path.normalize(pathname));
    const type = TYPES[path.extname(file)];
    if (!type || !file.startsWith(root)) return response.writeHead(404).end();
    createReadStream(file)
      .on('error', () => response.writeHead(404).end())
      .once('open', () => response.writeHead(200, {
        'content-type': type,
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-embedder-policy': 'require-corp',
      }))
      .pipe(response);
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}
