// A program that waits to be the leader: it says how it stands once it has asked, `leads` or `waits`, and
// later that it leads.

import process from 'node:process';
import { createInterface } from 'node:readline';

let leads = false;
let hasTold = false;

/** It is the leader now. */
export function lead() {
  if (leads) return;
  leads = true;
  if (hasTold) console.log('leads');
}

export const isLeader = () => leads;

/** It has asked for the lock, in this turn or before. */
export async function asked() {
  // This comes after all that was decided before, and after its callbacks.
  await navigator.locks.query();
  await new Promise((resolve) => setTimeout(resolve, 0));
  hasTold = true;
  console.log(leads ? 'leads' : 'waits');
}

/** What it says to each line that it is told. It goes on until it is killed. */
export function answer(say) {
  createInterface({ input: process.stdin }).on('line', async (line) => console.log(await say(line)));
}
