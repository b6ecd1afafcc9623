// Starts agents in navlock-js-run for a test: workers, which are threads, and processes. Also starts programs that a
// test watches from outside.

import { Failure } from '../kit/assert.mjs';
import { RemoteAgent } from '../kit/remote.mjs';
import { deferred } from '../kit/wait.mjs';

const { runtime } = globalThis;
const inFolder = (module) => runtime.script.replace(/[^/]*$/, module);

/** @param {string} realm  the module of realms/ that the agents open */
export function workerSpawner(realm) {
  return () => {
    const worker = runtime.startWorker('embedded-worker.mjs', realm, {
      message: (message) => agent.receive(message),
      end: (error) => agent.hasEnded(error ?? 'nothing was left to do'),
    });
    const agent = new RemoteAgent({ post: worker.post, end: worker.terminate });
    return agent.ready;
  };
}

export function processSpawner(realm) {
  return () => {
    const job = JSON.stringify({ realm });
    const child = runtime.startProcess([inFolder('embedded-process.mjs'), job], {
      line: (line) => agent.receive(JSON.parse(line)),
      errorLine: (line) => console.error(line),
      end: ({ code, signal }) => agent.hasEnded(signal ? `signal ${signal}` : `exit code ${code}`),
    });
    const agent = new RemoteAgent({ post: (message) => child.write(JSON.stringify(message)), end: child.kill });
    return agent.ready;
  };
}

export function programRunner(realm) {
  /** @param {(context: object) => unknown} main  sent as its source; awaited at the top level */
  return (main) => {
    const [output, unread, errors] = [[], [], []];
    const end = deferred();
    let reader;
    let ended;
    runtime.startProcess([inFolder('embedded-program.mjs'), JSON.stringify({ realm, source: String(main) })], {
      line(line) {
        output.push(line);
        if (reader) reader.resolve(line);
        else unread.push(line);
        reader = undefined;
      },
      errorLine: (line) => errors.push(line),
      end({ code, signal }) {
        ended = new Failure(`the program has ended (${signal ? `signal ${signal}` : code}): ${errors.join(' ')}`);
        end.resolve({ code: code ?? signal, output, errors });
        reader?.reject(ended);
      },
    });
    return {
      end: end.promise,
      /** The next line that the program prints. */
      line() {
        if (unread.length > 0) return Promise.resolve(unread.shift());
        reader = deferred();
        if (ended) reader.reject(ended);
        return reader.promise;
      },
    };
  };
}
