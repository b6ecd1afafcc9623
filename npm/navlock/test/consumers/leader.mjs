// Waits to be the leader of a channel, and prints when it is.

import process from 'node:process';
import { BroadcastChannel, createLeaderElection } from 'broadcast-channel';

const channel = new BroadcastChannel('work', { type: 'node', webWorkerSupport: false });
const elector = createLeaderElection(channel);
console.log(`led ${await elector.hasLeader()}`);
await elector.awaitLeadership();
console.log(`leader ${process.pid}`);
console.log((await navigator.locks.query()).held.map(({ name }) => name).join());
// The program goes on until it is killed.
setInterval(() => {}, 1 << 30);
