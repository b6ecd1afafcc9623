// @supabase/auth-js refreshes a session under a lock where it finds navigator.locks. A refresh token is good once: if
// two programs use the same token, they lose the session.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { test } from 'node:test';

import { createUserAgent, look } from '../../js/index.mjs';
import { deferred, withDeadline } from '../kit/wait.mjs';
import { nodes, openPlace, start } from './programs.mjs';

/**
 * A server of sessions whose refresh tokens are good once. It answers the first refresh only when it knows what the
 * other program does meanwhile, and notes that in `seen`. It refuses a used token only after `firstAnswer`: the program
 * that is refused removes the session, which the first one must have read by then.
 *
 * @param {object} events
 * @param {() => Promise<string>} events.otherWaits  called when one program refreshes; fulfilled when the other one waits
 * @param {Promise<void>} events.firstAnswer  fulfilled when one of the programs has printed its answer
 */
async function openServer(context, { otherWaits, firstAnswer }) {
  const seen = { refreshed: 0, refused: 0, meanwhile: undefined };
  const otherRefreshes = deferred();
  // Long enough for a busy machine: both programs have loaded the package before one of them refreshes.
  const known = (race) => withDeadline(race, 10_000, 'the other program neither refreshed nor waited').catch(({ message }) => message);
  let [current, number, requests] = ['token 0', 0, 0];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const bytes of request) body += bytes;
    const { refresh_token: token } = JSON.parse(body);
    if (++requests === 1) seen.meanwhile = await known(Promise.race([otherRefreshes.promise, otherWaits()]));
    else otherRefreshes.resolve('the other program refreshes');
    response.setHeader('content-type', 'application/json');
    if (token !== current) {
      seen.refused++;
      await firstAnswer;
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

/**
 * Fulfilled when one program holds the lock of the session and the other one waits for it. This process only looks: if
 * it were a client, it would start the broker again at the end of the test.
 */
async function otherWaits(context, { env: { NAVLOCK_BUCKET: bucket, NAVLOCK_SOCKET: socket } }) {
  const { locks } = createUserAgent({ reach: 'machine', socket, bucket });
  const controller = new AbortController();
  context.after(() => controller.abort());
  for (;;) {
    const news = look(locks, { name: 'lock:session', signal: controller.signal });
    const { value: { held, pending } } = await news.next();
    if (held.length === 1 && pending.length === 1) return 'the other program waits';
    await news.next();
    await news.return();
  }
}

const never = new Promise(() => {});

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
  const firstAnswer = deferred();
  const { url, seen } = await openServer(context, {
    otherWaits: () => (withNavlock ? otherWaits(context, place) : never),
    firstAnswer: firstAnswer.promise,
  });
  writeFileSync(path.join(place.folder, 'session'), JSON.stringify(session('token 0', -60)));
  const programs = [1, 2].map(() => start(context, { command, place, program: 'session.mjs', words: [url, place.folder], withNavlock }));
  for (const { hear } of programs) assert.equal(await hear(), 'ready');
  for (const { tell } of programs) tell();
  const answers = programs.map(({ hear }) => hear());
  Promise.race(answers).then(firstAnswer.resolve, firstAnswer.resolve);
  const result = { answers: (await Promise.all(answers)).sort(), seen };
  // A program that still runs would start the broker again at the end of the test.
  for (const { ended } of programs) await ended();
  return result;
}

for (const { name, command } of nodes) {
  test(`auth-js on ${name}: of two processes one refreshes, and both have the session`, { timeout: 60_000 }, async (context) => {
    const { answers, seen } = await twoNeedTheSession(context, command, true);
    assert.deepEqual(seen, { refreshed: 1, refused: 0, meanwhile: 'the other program waits' });
    assert.deepEqual(answers, ['session token 1', 'session token 1']);
  });

  test(`auth-js on ${name} with what the runtime has: both refresh, and one has lost the session`, { timeout: 60_000 }, async (context) => {
    const { answers, seen } = await twoNeedTheSession(context, command, false);
    assert.deepEqual(seen, { refreshed: 1, refused: 1, meanwhile: 'the other program refreshes' });
    assert.deepEqual(answers, ['failed used', 'session token 1']);
  });
}
