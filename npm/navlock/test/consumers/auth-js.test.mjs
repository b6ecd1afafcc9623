// @supabase/auth-js refreshes a session under a lock where it finds navigator.locks. A refresh token is good once: if
// two programs use the same token, they lose the session.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { test } from 'node:test';

import { nodes, openPlace, start } from './programs.mjs';

/**
 * A server of sessions whose refresh tokens are good once.
 *
 * @param {number} overlap  how long a request waits for a second one to come at the same time, in milliseconds
 */
async function openServer(context, overlap) {
  const seen = { refreshed: 0, reused: 0 };
  let [current, number] = ['token 0', 0];
  const others = new Set();
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const bytes of request) body += bytes;
    const { refresh_token: token } = JSON.parse(body);
    // A request that waits here goes on when another one comes.
    for (const goOn of others) goOn();
    await new Promise((resolve) => {
      const goOn = () => {
        clearTimeout(timer);
        others.delete(goOn);
        resolve();
      };
      const timer = setTimeout(goOn, overlap);
      others.add(goOn);
      if (others.size > 1) for (const other of others) other();
    });
    response.setHeader('content-type', 'application/json');
    if (token !== current) {
      seen.reused++;
      response.writeHead(400).end(JSON.stringify({ code: 'refresh_token_already_used', message: 'used' }));
      return;
    }
    seen.refreshed++;
    current = `token ${++number}`;
    response.end(JSON.stringify(session(current, 3600)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.after(() => server.close());
  return { url: `http://127.0.0.1:${server.address().port}`, seen };
}

function session(refreshToken, seconds) {
  const now = Math.floor(Date.now() / 1000);
  return {
    access_token: 'a.b.c',
    refresh_token: refreshToken,
    token_type: 'bearer',
    expires_in: seconds,
    expires_at: now + seconds,
    user: { id: '1', aud: 'authenticated', app_metadata: {}, user_metadata: {}, created_at: '2026-01-01T00:00:00Z' },
  };
}

async function twoNeedTheSession(context, command, withNavlock) {
  const place = openPlace(context);
  // Without navlock a second request comes, and the wait is long enough for a busy machine. With navlock none comes.
  const { url, seen } = await openServer(context, withNavlock ? 1500 : 30_000);
  writeFileSync(path.join(place.folder, 'session'), JSON.stringify(session('token 0', -60)));
  const programs = [1, 2].map(() => start(context, { command, place, program: 'session.mjs', words: [url, place.folder], withNavlock }));
  const answers = await Promise.all(programs.map(({ hear }) => hear()));
  return { answers, seen };
}

for (const { name, command } of nodes) {
  test(`auth-js on ${name}: of two processes one refreshes, and both have the session`, { timeout: 60_000 }, async (context) => {
    const { answers, seen } = await twoNeedTheSession(context, command, true);
    assert.deepEqual(seen, { refreshed: 1, reused: 0 });
    assert.deepEqual(answers, ['session token 1', 'session token 1']);
  });

  test(`auth-js on ${name} with what the runtime has: both refresh, and one has lost the session`, { timeout: 60_000 }, async (context) => {
    const { seen } = await twoNeedTheSession(context, command, false);
    assert.deepEqual(seen, { refreshed: 1, reused: 1 });
  });
}
