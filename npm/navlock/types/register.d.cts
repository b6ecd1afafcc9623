import type { LockManager } from './index.cjs';

declare global {
  // lib.dom and newer @types/node have the attribute on an interface that this one extends: ours can be
  // assigned to theirs, and is what is there. Older ones have none.
  interface Navigator {
    readonly locks: LockManager;
  }
  // As @types/node has it, so that it is the same one for lib.dom, lib.webworker and Node.
  var navigator: typeof globalThis extends { onmessage: any; navigator: infer T } ? T : Navigator;
}

export {};
