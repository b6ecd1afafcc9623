// Runs one file of the web-platform-tests in navlock-js-run, in the main agent (as a window) or in a worker. Also
// runs the workers that such a file starts.

import { runFile } from './wpt-file.mjs';

const { runtime } = globalThis;
const job = JSON.parse(runtime.isWorker ? runtime.argument : runtime.arguments[0]);

/** @type {import('./wpt-file.mjs').Platform} */
const platform = {
  read: runtime.readFile,
  evaluate(source, file) {
    runtime.evaluate(source, file);
    if (file.endsWith('/webidl2.js')) globalThis.WebIDL2 = parsingByPieces(globalThis.WebIDL2);
  },
  print: (line) => console.log(line),
  end: () => runtime.exit(0),
  locationOf: (href) => ({ href, pathname: href.replace(/^[a-z]+:\/\/[^/]*/, ''), toString: () => href }),
  ignoreRejections: runtime.ignoreRejections,
  startWorker(job, what, onMessage = () => {}) {
    const worker = runtime.startWorker('embedded-wpt.mjs', JSON.stringify({ ...job, ...what }), {
      message: onMessage,
      end(error) {
        if (error === null) return;
        console.error(error);
        runtime.exit(1);
      },
    });
    return { post: worker.post, end: worker.terminate };
  },
};

/**
 * A parser that parses each definition by itself. In Boa 0.22 the cost of each use of a regular expression grows with
 * the length of the whole text, and the parser uses one for each token: html.idl would take minutes. A definition can
 * be parsed without the others.
 */
function parsingByPieces(parser) {
  const END = '\n};\n';
  const parse = (source, options) => source.split(END)
    .map((piece, index, { length }) => (index < length - 1 ? piece + END : piece))
    .flatMap((piece) => parser.parse(piece, options));
  return { ...parser, parse };
}

if (job.script) await runScript();
else if (job.scope === 'worker' && !runtime.isWorker) platform.startWorker(job, {});
else await runFile(job, platform);

// A test that waits for a lock for ever must time out. Without this timer, the process would end instead.
if (!runtime.isWorker) setInterval(() => {}, 60_000);

/** Runs a script that exchanges messages with its owner as a worker of the web does. */
async function runScript() {
  const { openRealm } = await import(`../realms/${job.realm}.mjs`);
  await openRealm();
  globalThis.postMessage = runtime.parent.post;
  globalThis.addEventListener = (type, listener) => {
    if (type === 'message') runtime.parent.listen((data) => listener.call(globalThis, { data }));
  };
  const file = `${job.checkout}/${job.script}`;
  runtime.evaluate(runtime.readFile(file), file);
}
