// What scripts find beyond the language and `navigator.locks`: timers, console, a few functions of the
// web, and this program's own object `runtime`. The value of this script is a function
// `(global, native) => deliver`. `vm/mod.rs` describes `native`.
//
// The program calls `deliver(text)` once for each event, in a task of its own. The text is JSON:
//
//   7                                           the timer with this number is due
//   { "message": … }                            to a worker, from the agent that has started it
//   { "worker": 1, "message": … }               from a worker
//   { "worker": 1, "end": { "error": … } }      the worker has ended; the error is null if there was none
//   { "process": 1, "line": … }                 it has printed a line; `errorLine` if to the error output
//   { "process": 1, "end": { "code", "signal" } }
//   { "input": … }                              a line of the standard input, or null after the last one
(function (global, native) {
  'use strict';

  const { host, openLocks, evaluate, collectGarbage, newMemory, openMemory } = native;
  const { SharedArrayBuffer: NativeSharedArrayBuffer } = global;
  const self = JSON.parse(host('self'));

  const define = (members) => {
    for (const [name, value] of Object.entries(members)) {
      Object.defineProperty(global, name, { value, writable: true, configurable: true });
    }
  };

  // ---- Timers

  const timers = new Map();
  let lastTimer = 0;

  function setTimer(callback, milliseconds, { args = [], repeats = false, referenced = true }) {
    if (typeof callback !== 'function') throw new TypeError('the callback of a timer must be a function');
    const number = ++lastTimer;
    const time = Math.trunc(Number(milliseconds)) || 0;
    timers.set(number, { callback, args, every: repeats ? time : undefined });
    host('timer', `${number} ${time} ${referenced}`);
    return number;
  }

  function clearTimer(number) {
    if (timers.delete(number)) host('cancel', String(number));
  }

  function fire(number) {
    const timer = timers.get(number);
    if (!timer) return;
    if (timer.every === undefined) timers.delete(number);
    else host('timer', `${number} ${timer.every} true`);
    (0, timer.callback)(...timer.args);
  }

  // ---- Output

  function inspect(value, depth = 0) {
    if (typeof value === 'string') return depth === 0 ? value : JSON.stringify(value);
    if (typeof value === 'function') return `function ${value.name}`;
    if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? '-0' : String(value);
    if (value instanceof Error) return `${value.name}: ${value.message}${value.stack ? `\n${value.stack}` : ''}`;
    if (depth > 3) return '…';
    if (Array.isArray(value)) return `[${value.map((item) => inspect(item, depth + 1)).join(', ')}]`;
    const members = Object.entries(value).map(([name, member]) => `${name}: ${inspect(member, depth + 1)}`);
    const tag = Object.prototype.toString.call(value).slice(8, -1);
    return `${tag === 'Object' ? '' : `${tag} `}{ ${members.join(', ')} }`;
  }

  const line = (values) => values.map((value) => inspect(value)).join(' ');
  const print = (...values) => void host('print', line(values));
  const complain = (...values) => void host('complain', line(values));

  // ---- Messages: JSON and the memory that the agents of this process share

  const numbers = new WeakMap();

  function SharedArrayBuffer(length) {
    const number = newMemory(Number(length));
    return opened(number);
  }

  function opened(number) {
    const buffer = openMemory(number);
    numbers.set(buffer, number);
    return buffer;
  }

  const units = (text) => Array.from({ length: text.length }, (_, index) => text.charCodeAt(index));

  const encode = (message) => JSON.stringify(message ?? null, (_, value) => {
    // Boa's JSON.parse refuses the escapes of lone surrogates: JSON.parse('"\\ud800"').
    if (typeof value === 'string' && /[\ud800-\udfff]/.test(value)) return { '@text': units(value) };
    if (typeof value !== 'object' || value === null) return value;
    if (numbers.has(value)) return { '@memory': numbers.get(value) };
    if (ArrayBuffer.isView(value) && numbers.has(value.buffer)) {
      return { '@view': value.constructor.name, number: numbers.get(value.buffer), offset: value.byteOffset, length: value.length };
    }
    return value;
  });

  const decode = (value) => {
    if (typeof value !== 'object' || value === null) return value;
    if ('@text' in value) return String.fromCharCode(...value['@text']);
    if ('@memory' in value) return opened(value['@memory']);
    if ('@view' in value) return new global[value['@view']](opened(value.number), value.offset, value.length);
    for (const key of Object.keys(value)) value[key] = decode(value[key]);
    return value;
  };

  // ---- Other agents

  const workers = new Map();
  const processes = new Map();
  let lastAgent = 0;
  let listener;
  let input;

  /** @param {{ message?, end? }} handlers  for its messages, and for its end, with an error or null */
  function startWorker(script, argument, handlers = {}) {
    const number = ++lastAgent;
    host('worker', `${number} ${JSON.stringify({ script: String(script), argument: String(argument ?? '') })}`);
    workers.set(number, handlers);
    return {
      post: (message) => void host('post to worker', `${number} ${encode(message)}`),
      /** Ends the worker, even in the middle of a script if the engine can do that. */
      terminate: () => void host('terminate', String(number)),
    };
  }

  /** Another process like this one. @param {{ line?, errorLine?, end? }} handlers */
  function startProcess(args, handlers = {}) {
    const number = ++lastAgent;
    host('process', `${number} ${JSON.stringify(args.map(String))}`);
    processes.set(number, handlers);
    return {
      write: (line) => void host('write to process', `${number} ${line}`),
      kill: () => void host('kill', String(number)),
    };
  }

  /** In a worker: the agent that has started it. The worker lives as long as it listens. */
  const parent = {
    post: (message) => void host('post', encode(message)),
    listen(callback) {
      listener = callback;
      host('listen');
    },
    stopListening: () => void host('stop listening'),
  };

  /** Reads the standard input. The agent lives until the input ends, or until the reading is stopped. */
  function readLines(line, end = () => {}) {
    input = { line, end };
    host('input');
    return () => {
      input = undefined;
      host('stop input');
    };
  }

  function deliver(text) {
    const event = JSON.parse(text);
    if (typeof event === 'number') return fire(event);
    if ('worker' in event) {
      const { message, end } = workers.get(event.worker) ?? {};
      if (!event.end) return message?.(decode(event.message));
      workers.delete(event.worker);
      return end?.(event.end.error);
    }
    if ('process' in event) {
      const { line, errorLine, end } = processes.get(event.process) ?? {};
      if ('line' in event) return line?.(event.line);
      if ('errorLine' in event) return errorLine?.(event.errorLine);
      processes.delete(event.process);
      return end?.(event.end);
    }
    if ('input' in event) return event.input === null ? input?.end() : input?.line(event.input);
    return listener?.(decode(event.message));
  }

  // ---- The global scope

  let reporter;
  const reportError = (error) => void (reporter ? reporter(error) : host('report', inspect(error)));

  define({
    self: global,
    setTimeout: (callback, milliseconds, ...args) => setTimer(callback, milliseconds, { args }),
    setInterval: (callback, milliseconds, ...args) => setTimer(callback, milliseconds, { args, repeats: true }),
    clearTimeout: clearTimer,
    clearInterval: clearTimer,
    queueMicrotask(callback) {
      if (typeof callback !== 'function') throw new TypeError('a microtask must be a function');
      Promise.resolve().then(() => callback()).catch(reportError);
    },
    reportError,
    console: { log: print, info: print, debug: print, warn: complain, error: complain },
    performance: { now: () => Number(host('now')) },
    crypto: { randomUUID: () => host('uuid') },
    runtime: {
      ...self,
      isWorker: 'argument' in self,
      environment: (name) => host('environment', name),
      exit: (code = 0) => host('exit', String(code)),
      close: () => void host('close'),
      readFile: (path) => host('read', path),
      readLines,
      /** Passes reported errors to `callback`. Without it, such an error ends the agent. */
      onReport: (callback) => void (reporter = callback),
      ignoreRejections: () => void host('ignore rejections'),
      unreferencedTimer: (callback, milliseconds) => setTimer(callback, milliseconds, { referenced: false }),
      memory: () => (collectGarbage(), Number(host('memory'))),
      evaluate,
      openLocks,
      parent,
      startWorker,
      startProcess,
    },
  });
  if (NativeSharedArrayBuffer) {
    SharedArrayBuffer.prototype = NativeSharedArrayBuffer.prototype;
    define({ SharedArrayBuffer });
  }
  return deliver;
});
