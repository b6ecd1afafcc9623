// Rule 33: buckets and user agents.

import { equal, ok, same } from '../kit/assert.mjs';
import { isFree as isFreeIn } from '../kit/hold.mjs';
import { test } from '../kit/test.mjs';

const SPEC = '#lock-managers';

test('buckets do not see or delay each other', {
  rules: [33], spec: SPEC, needs: ['buckets'],
}, async ({ hold, locks, openBucket }) => {
  const [red, blue] = [await openBucket('red'), await openBucket('blue')];
  await hold('db').granted;
  ok(red !== blue && red !== locks, 'each bucket has a lock manager of its own');
  await red.request('db', async () => {
    ok(await isFreeIn(blue, 'db'), 'what one bucket holds is free in another');
    same((await red.query()).held.length, 1, 'the number of held locks in the bucket');
    equal(await blue.query(), { held: [], pending: [] }, 'the snapshot of another bucket');
    same((await locks.query()).held.length, 1, 'the number of held locks in the default bucket');
  });
});

test('a bucket that is opened twice is one', {
  rules: [33], spec: SPEC, needs: ['buckets'],
}, async ({ openBucket }) => {
  const [one, two] = [await openBucket('red'), await openBucket('red')];
  await one.request('db', async () => {
    same(await isFreeIn(two, 'db'), false, 'what is held in the bucket is free in it');
  });
});

test('a thief in one bucket takes nothing of another', {
  rules: [33, 14], spec: SPEC, needs: ['buckets'],
}, async ({ hold, openBucket }) => {
  const holder = hold('db');
  await holder.granted;
  await (await openBucket('red')).request('db', { steal: true }, () => {});
  same(await holder.release('kept'), 'kept', 'the value of the holder');
});

test('user agents do not see each other', {
  rules: [33], spec: '#private-browsing', needs: ['user agents'],
}, async ({ hold, openUserAgent }) => {
  const other = await openUserAgent();
  await hold('db').granted;
  ok(await isFreeIn(other, 'db'), 'what is held in one user agent is free in another');
  equal(await other.query(), { held: [], pending: [] }, 'the snapshot of another user agent');
});
