// Starts agents that are processes, and programs that a test watches from outside.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { Failure } from '../kit/assert.mjs';
import { RemoteAgent } from '../kit/remote.mjs';
import { deferred } from '../kit/wait.mjs';

/** @param {{ realm: string, command: string[] }} job */
function start({ realm, command: [file, ...flags] }, module, options, stdio) {
  const path = fileURLToPath(new URL(module, import.meta.url));
  return spawn(file, [...flags, path, JSON.stringify({ realm, ...options })], { stdio });
}

export function processSpawner(job) {
  return () => {
    const child = start(job, 'process-inside.mjs', {}, ['pipe', 'pipe', 'inherit']);
    const agent = new RemoteAgent({
      post: (message) => child.stdin.write(`${JSON.stringify(message)}\n`),
      end: () => child.kill('SIGKILL'),
    });
    child.stdin.on('error', () => {}); // the process has ended, which is told below
    createInterface({ input: child.stdout }).on('line', (line) => agent.receive(JSON.parse(line)));
    child.on('exit', (code, signal) => agent.hasEnded(signal ?? `exit code ${code}`));
    return agent.ready;
  };
}

export function programRunner(job) {
  /** @param {(context: object) => unknown} main  sent as its source; awaited at the top level */
  return (main) => {
    const child = start(job, 'program.mjs', { source: String(main) }, ['ignore', 'pipe', 'pipe']);
    const output = [];
    const unread = [];
    let reader;
    const errors = [];
    const end = deferred();
    createInterface({ input: child.stdout }).on('line', (line) => {
      output.push(line);
      if (reader) reader.resolve(line);
      else unread.push(line);
      reader = undefined;
    });
    createInterface({ input: child.stderr }).on('line', (line) => errors.push(line));
    child.on('close', (code, signal) => {
      end.resolve({ code: code ?? signal, output, errors });
      reader?.reject(new Failure(`the program has ended (${code ?? signal})`));
    });
    return {
      end: end.promise,
      /** The next line that the program prints. */
      line() {
        if (unread.length > 0) return Promise.resolve(unread.shift());
        reader = deferred();
        if (child.exitCode !== null) reader.reject(new Failure(`the program has ended (${child.exitCode})`));
        return reader.promise;
      },
    };
  };
}
