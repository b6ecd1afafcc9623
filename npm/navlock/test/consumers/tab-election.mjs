// A tab of tab-election, whose leader answers the calls of all.

import { Tab } from 'tab-election';

import { answer, asked, lead } from './candidate.mjs';

const tab = new Tab('work');
await tab.hasLeader(); // which it finds out by a lock, too
tab.waitForLeadership(() => {
  lead();
  return { double: (number) => 2 * number };
});
await asked();
answer((number) => tab.call('double', Number(number)));
