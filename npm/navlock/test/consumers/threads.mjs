// Runs a program in threads of one process. Begins one for the line `start`; ends the one with a number
// for `end NUMBER`, and says `NUMBER ended`; hands on what is said to one, `NUMBER WORDS`, and what it says.
//
//     node threads.mjs PROGRAM WORDS…

import process from 'node:process';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';

const threads = [];
createInterface({ input: process.stdin }).on('line', async (line) => {
  const [word, ...words] = line.split(' ');
  if (word === 'start') {
    const index = threads.length;
    const thread = new Worker(new URL(process.argv[2], import.meta.url), { argv: process.argv.slice(3), stdin: true, stdout: true });
    threads.push(thread);
    createInterface({ input: thread.stdout }).on('line', (said) => console.log(`${index} ${said}`));
  } else if (word === 'end') {
    await threads[words[0]].terminate();
    console.log(`${words[0]} ended`);
  } else {
    threads[word].stdin.write(`${words.join(' ')}\n`);
  }
});
