// A process that shares a session with other processes. The code is the recipe of the book, to the letter:
// book.test.mjs compares the two.

import { readFile, writeFile } from 'node:fs/promises';
import process from 'node:process';

import { inspect, locks } from 'navlock';

const [file, url] = process.argv.slice(2);
let reads = 0;

async function readSession() {
  reads++;
  return JSON.parse(await readFile(file, 'utf8'));
}

const writeSession = (session) => writeFile(file, JSON.stringify(session));

async function refresh(token) {
  const response = await fetch(`${url}/${encodeURIComponent(token)}`);
  if (!response.ok) throw new Error(`the refresh token "${token}" is good no more`);
  return response.json();
}

let session = await readSession();
let expired = -1;
const isExpired = ({ access }) => access <= expired;

function accessToken() {
  return locks.request('session', async (lock) => {
    if (inspect(lock).changed) session = await readSession();
    if (isExpired(session)) {
      session = await refresh(session.refresh);
      await writeSession(session);
    }
    return session.access;
  });
}

process.on('message', async (access) => {
  expired = access;
  const accesses = await Promise.all([accessToken(), accessToken(), accessToken()]);
  process.send({ accesses, reads });
});
