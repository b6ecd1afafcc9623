// Runs one file of the web-platform-tests, in this thread (as a window) or in a worker.

import process from 'node:process';

import { runFile } from './wpt-file.mjs';
import { platform } from './wpt-platform.mjs';
import { startWorker } from './wpt-worker-outside.mjs';

const job = JSON.parse(process.argv[2]);

// A test that waits for a lock for ever must time out. Without this timer, the process would end instead.
setInterval(() => {}, 60_000);

if (job.scope === 'worker') startWorker(job, { file: job.file });
else await runFile(job, platform);
