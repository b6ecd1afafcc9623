// A tab of tab-election. The leader answers the calls of all tabs.

import { Tab } from 'tab-election';

import { answer, asked, lead } from './candidate.mjs';

const tab = new Tab('work');
await tab.hasLeader(); // the package uses a lock for this, too
tab.waitForLeadership(() => {
  lead();
  return { double: (number) => 2 * number };
});
await asked();
answer((number) => tab.call('double', Number(number)));
