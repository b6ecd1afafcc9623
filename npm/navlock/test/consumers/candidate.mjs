// A program that waits to be the leader. Once it has requested the lock, it prints `leads` or `waits`. If it becomes
// the leader later, it prints `leads` then.

import process from 'node:process';
import { createInterface } from 'node:readline';

let leads = false;
let hasTold = false;

/** Notes that the program is the leader now. */
export function lead() {
  if (leads) return;
  leads = true;
  if (hasTold) console.log('leads');
}

export const isLeader = () => leads;

/** Prints whether the program leads. It has requested the lock, in this turn or before. */
export async function asked() {
  // The query is answered after all grants that were decided before. The timer fires after their callbacks.
  await navigator.locks.query();
  await new Promise((resolve) => setTimeout(resolve, 0));
  hasTold = true;
  console.log(leads ? 'leads' : 'waits');
}

/** Prints the answer of `say` to each line of the input. The program goes on until it is killed. */
export function answer(say) {
  createInterface({ input: process.stdin }).on('line', async (line) => console.log(await say(line)));
}
