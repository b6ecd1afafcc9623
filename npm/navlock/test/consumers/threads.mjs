// Runs a program in threads of one process. Reads three kinds of lines: `start` starts a thread; `end NUMBER` ends
// the thread with this number, and prints `NUMBER ended`; `NUMBER WORDS` passes words on to the thread. A line that a
// thread prints is printed with the thread's number before it.
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
