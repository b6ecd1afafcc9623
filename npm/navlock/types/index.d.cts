// Needs `AbortSignal` of lib.dom or of @types/node, and nothing else of either.

/** How a lock is held: alone, or with other shared holders. */
export type LockMode = 'exclusive' | 'shared';

/** A lock that was granted. It is held until what the callback returned is settled. */
export interface Lock {
  readonly name: string;
  readonly mode: LockMode;
}

/** The interface object, for `instanceof`. It cannot be constructed. */
export declare const Lock: { readonly prototype: Lock; [Symbol.hasInstance](value: unknown): value is Lock };

export interface LockOptions {
  /** `'exclusive'` by default. */
  mode?: LockMode;
  /** Do not wait: the callback is given `null` if the lock is not available at once. */
  ifAvailable?: boolean;
  /** Take the lock from whoever holds it: their promises reject with an `AbortError`. */
  steal?: boolean;
  /** Aborts the request while the request waits. The signal is ignored once the callback has begun. */
  signal?: AbortSignal;
  /** What the lock is for: shown to everybody who looks at who has it or waits for it. Other implementations ignore this. */
  why?: string;
}

export interface LockInfo {
  clientId: string;
  mode: LockMode;
  name: string;
}

export interface LockManagerSnapshot {
  held: LockInfo[];
  /** For each name in the order of the requests. */
  pending: LockInfo[];
}

/** <https://w3c.github.io/web-locks/#api-lock-manager>. Every failure is a rejection. */
export interface LockManager {
  /**
   * Requests a lock and runs `callback` while it is held.
   *
   * @returns what the callback comes to, once the lock is free again
   */
  request<T>(name: string, callback: (lock: Lock) => T): Promise<Awaited<T>>;
  request<T>(name: string, options: LockOptions & { ifAvailable?: false }, callback: (lock: Lock) => T): Promise<Awaited<T>>;
  request<T>(name: string, options: LockOptions, callback: (lock: Lock | null) => T): Promise<Awaited<T>>;

  /** The locks that are held and the requests that wait in the whole bucket, at one moment. */
  query(): Promise<LockManagerSnapshot>;
}

/** The interface object, for `instanceof`. It cannot be constructed. */
export declare const LockManager: { readonly prototype: LockManager; [Symbol.hasInstance](value: unknown): value is LockManager };

/**
 * The lock manager of this program: its package's bucket, seen by all its processes, unless
 * `NAVLOCK_REACH`, `NAVLOCK_BUCKET` or `NAVLOCK_SOCKET` say otherwise. Opened by the first request.
 */
export declare const locks: LockManager;

/** How far locks are seen. */
export type Reach = 'process' | 'machine' | 'system';

export interface UserAgentOptions {
  /**
   * `'machine'` by default, or what `NAVLOCK_REACH` says: all processes of this user. `'system'`: those of several
   * users of this machine, by a broker that an administrator starts.
   */
  reach?: Reach;
  /** The bucket of {@link UserAgent.locks}; by default the program's package, or `NAVLOCK_BUCKET`. */
  bucket?: string;
  /** Reach `'machine'` only: another broker's socket. */
  socket?: string;
  /** Reach `'process'` only: a user agent that nothing else shares, for tests and the like. */
  private?: boolean;
}

/** The owner of buckets. Two user agents never see each other's locks. */
export interface UserAgent {
  readonly reach: Reach;
  readonly locks: LockManager;
  /** The same name in two buckets is two locks. */
  bucket(name: string): Bucket;
  /**
   * From now on `locks` and `bucket()` throw an `InvalidStateError`. If the user agent is private, all its
   * requests end with an `InvalidStateError`, and its locks are lost. If it is shared, its requests and
   * locks go on.
   */
  close(): void;
  [Symbol.dispose](): void;
}

declare global {
  // As lib.esnext.disposable and @types/node have it, for programs with neither.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
    readonly asyncDispose: unique symbol;
  }
}

export interface Bucket {
  readonly locks: LockManager;
}

/** Throws a `TypeError` for what makes no sense. Nothing is opened before the first request. */
export declare function createUserAgent(options?: UserAgentOptions): UserAgent;

export interface Inspection {
  /** Greater than the tokens of all earlier locks of the name, so that a resource can refuse an earlier holder. */
  readonly fencingToken: bigint;
  /** Aborts when the lock is lost while it is held: it was stolen, or the broker is gone for good. */
  readonly lost: AbortSignal;
  /** The client id of the lock, as in a snapshot. */
  readonly clientId: string;
  /** The name of the bucket that the lock is in. */
  readonly bucket: string;
  /**
   * `false`: nobody else has held the name since this thread last held it, exclusively and inspected, in a
   * callback that did not fail. What the thread knew then is still true. `true`: somebody else may have held
   * the name. Fencing tokens say so, and they also say so if other names of the bucket were locked meanwhile,
   * and mostly between machines.
   */
  readonly changed: boolean;
}

/**
 * The `cause` of the `AbortError` of a lock that was lost: `STOLEN` by another request; `LEASE_ENDED`, as
 * between machines, while the service that keeps the lock did not answer; `DISCONNECTED`: the broker is gone for
 * good; `RESET`: the data of that service is gone; `REMOVED` by hand where it is kept; `CLOSED` with its
 * user agent; `TERMINATED` with its agent.
 */
export interface LossCause extends Error {
  readonly code: 'STOLEN' | 'LEASE_ENDED' | 'DISCONNECTED' | 'RESET' | 'REMOVED' | 'CLOSED' | 'TERMINATED';
  /** Of `STOLEN`: whose request it was, as in a snapshot, if the reach tells. */
  readonly clientId?: string;
}

/**
 * What there is to know of a lock beyond the standard. The first call for a lock must come while the lock
 * is held; later calls may come at any time. Throws an `InvalidStateError` otherwise.
 */
export declare function inspect(lock: Lock): Inspection;

/** As {@link LockOptions}; locks are stolen one by one. */
export interface RequestMultipleOptions {
  mode?: LockMode;
  /** Do not wait: unless all locks are available at once, none is held, and the callback is given `null`. */
  ifAvailable?: boolean;
  /** Aborts the request while the request waits. The signal is ignored once the callback has begun. */
  signal?: AbortSignal;
}

/**
 * Requests several locks, one after the other in the order of their names, and runs `callback`
 * while all are held. Because of that order, calls of this function never wait for each other in a
 * cycle. The callback is given the locks in the order of `names`; a name that is there twice is taken once.
 *
 * Rejects with an `AbortError` as soon as one of the locks is lost; the others are held until the
 * callback has ended.
 */
export declare function requestMultiple<T>(
  locks: LockManager,
  names: Iterable<string>,
  callback: (locks: Lock[]) => T,
): Promise<Awaited<T>>;
export declare function requestMultiple<T>(
  locks: LockManager,
  names: Iterable<string>,
  options: RequestMultipleOptions & { ifAvailable?: false },
  callback: (locks: Lock[]) => T,
): Promise<Awaited<T>>;
export declare function requestMultiple<T>(
  locks: LockManager,
  names: Iterable<string>,
  options: RequestMultipleOptions,
  callback: (locks: Lock[] | null) => T,
): Promise<Awaited<T>>;

/**
 * Requests whichever of several locks is free first, and runs `callback` while it is held. If several are free, the
 * first of them is taken. Otherwise the request stands in the queue of each name until one lock is granted.
 */
export declare function requestAny<T>(
  locks: LockManager,
  names: Iterable<string>,
  callback: (lock: Lock) => T,
): Promise<Awaited<T>>;
export declare function requestAny<T>(
  locks: LockManager,
  names: Iterable<string>,
  options: RequestMultipleOptions & { ifAvailable?: false },
  callback: (lock: Lock) => T,
): Promise<Awaited<T>>;
export declare function requestAny<T>(
  locks: LockManager,
  names: Iterable<string>,
  options: RequestMultipleOptions,
  callback: (lock: Lock | null) => T,
): Promise<Awaited<T>>;

/** A lock that is held until it is released. */
export interface HeldLock {
  readonly name: string;
  readonly mode: LockMode;
  /** What a callback would have been given, for {@link inspect}. */
  readonly lock: Lock;
  /** Aborts when the lock is lost. */
  readonly lost: AbortSignal;
  /**
   * Releases the lock. Every call returns the same promise. The promise is settled once the lock is free; it
   * is rejected with the reason of {@link lost} if the lock had been lost.
   */
  release(): Promise<void>;
  /** {@link release}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** What {@link hold} needs of a lock manager, which may also be the runtime's own. */
export interface LockRequester {
  request(name: string, options: any, callback: (lock: any) => any): Promise<any>;
}

/**
 * Requests a lock and holds it until it is released, for code that cannot put its work into a callback.
 * If the object is collected before it was released, the lock is released, and the process emits a warning.
 *
 * @returns `null` if the option `ifAvailable` is set and the lock is not available
 */
export declare function hold(locks: LockRequester, name: string, options?: LockOptions & { ifAvailable?: false }): Promise<HeldLock>;
export declare function hold(locks: LockRequester, name: string, options: LockOptions): Promise<HeldLock | null>;

export interface LookOptions {
  /** Tells of this name only. Events of agents and clients are told all the same. */
  name?: string;
  /** All buckets of the user agent, and not only that of the lock manager. */
  allBuckets?: boolean;
  /** Ends the look: a waiting `next()`, or else the next call of it, rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** A lock or request, and whose it is. A property that is not known is absent. */
export interface LookEntry {
  bucket: string;
  name: string;
  mode: LockMode;
  /** Whose it is, as in a snapshot. */
  clientId: string;
  /** The number of the request among all requests of its agent, in decimal digits. */
  serial: string;
  /** The process; with reach `'process'` only if it says so. */
  pid?: number;
  command?: string;
  user?: string;
  host?: string;
  /** The navlock that keeps the lock for this process, if it is a command or script. */
  keeper?: number;
  /** The purpose, as given by `navlock run --why`. */
  why?: string;
  /** Other data, as given by `navlock hold --meta`. */
  meta?: Record<string, string>;
  /** Of a lock, in decimal digits. */
  fencingToken?: string;
  /** The locks inside which the request was made, as far as they are known, each as `clientId/serial`. */
  inside?: string[];
  /** How often its owner has taken the name without asking the broker. */
  taken?: number;
  /** For how many milliseconds it is held or waits; a minimum, if that began before anybody looked. */
  ageMs?: number;
}

/**
 * All locks and requests at one moment. A picture is the first news. Another picture comes when events were
 * missed, when something has changed on other machines (the broker looks at these once a second), and when the
 * broker has ended or another broker has begun.
 */
export interface LookPicture {
  event: 'picture';
  /** As in {@link LookEvent}. */
  at: number;
  /** How many events were missed because nobody asked in time. The picture includes what they changed. */
  missed: number;
  /** How many locks and requests there are that are not shown, because there are too many. */
  leftOut: number;
  held: LookEntry[];
  /** For each name in the order in which they will be granted. */
  pending: LookEntry[];
  /** Names that a process takes and releases without asking the broker, and does not hold now. */
  owned: LookEntry[];
}

/** Something that has happened, as `navlock watch --json` tells it. */
export interface LookEvent extends Partial<LookEntry> {
  /**
   * Of a request: `requested` (and waits), `granted`, `unavailable` (and was wanted only at once), `aborted`,
   * or `inside`: it is known now inside which locks it was made. Of a lock: `released`, `stolen`, `lost`. Of a name
   * that its owner takes without asking: `owned`, `recalled`. Of who is there: `agent-came`, `agent-went`,
   * `agent-silent`, `client-came`, `client-went`, `recovered`. There may be more in later releases.
   */
  event:
    | 'requested' | 'granted' | 'unavailable' | 'aborted' | 'inside' | 'released' | 'stolen' | 'lost' | 'owned' | 'recalled'
    | 'agent-came' | 'agent-went' | 'agent-silent' | 'client-came' | 'client-went' | 'recovered';
  /** When, in milliseconds since 1970, as of `Date.now()`. */
  at: number;
  /** Of `granted` and `aborted` for how many milliseconds the request had waited, of an end how long it was held. */
  ageMs?: number;
  /** Of `stolen` and `lost`: how, in words. */
  how?: string;
  /** Of `stolen`: the thief's client id, if that is known. */
  by?: string;
  /** Of `owned`: whether the name is held. */
  state?: 'held' | 'idle';
  /** Of `client-came` and `client-went`: the number of its connection. */
  client?: number;
}

/**
 * A look that goes on. A `break` out of `for await` ends the look, as does {@link LookOptions.signal}. The look
 * keeps the process alive only while a call of `next()` waits for news.
 */
export interface Look extends AsyncIterableIterator<LookPicture | LookEvent> {
  next(): Promise<IteratorResult<LookPicture | LookEvent, undefined>>;
  return(): Promise<IteratorReturnResult<undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Looks at the bucket of a lock manager. The first news is a picture of one moment. After it comes every event on
 * this machine, in order. No request waits for a look: if a program does not ask for news in time, it gets a new
 * picture, which says how many events were missed. Where there is no broker, nobody holds anything; the look waits
 * for a broker and starts none. A look is not a client.
 *
 * `next()` rejects with an `OperationError` if the broker does not tell (also if there are 64 looks already). It
 * rejects with an `OperationError` or an `InvalidStateError` if the user agent has been closed. A call that waits
 * when the user agent is closed is told that there are no more news.
 *
 * `look()` throws a `TypeError` for options that make no sense.
 */
export declare function look(locks: LockManager, options?: LookOptions): Look;

export interface ReportOptions {
  /** Warns of each lock that has been held for so many milliseconds. */
  held?: number;
  /** Warns of each request that has waited for so many milliseconds, and says who holds the lock. */
  waiting?: number;
  /** Whether warnings say where locks were requested. That costs time at each request. */
  stacks?: boolean;
  /**
   * For a request that waits for a lock inside whose callback the request was made. `'warn'`: warns once the
   * request has waited for a second. `true`: rejects the request with an `OperationError`.
   */
  strict?: boolean | 'warn';
  /**
   * `'warn'`: warns of deadlocks: requests that have waited for a second, each inside a lock that the next one
   * waits for, in a cycle. The text says who waits for what, across threads, processes and `navlock run`.
   * `true`: the request that came last is also rejected, if it was made in this thread, with an
   * `OperationError` whose message is that text.
   */
  deadlocks?: boolean | 'warn';
}

/**
 * Sets which warnings the process emits about requests that this thread makes from now on, in place of what
 * `NAVLOCK_REPORT_HELD`, `NAVLOCK_REPORT_WAITING`, `NAVLOCK_REPORT_STACKS`, `NAVLOCK_STRICT` and
 * `NAVLOCK_DEADLOCKS` say.
 */
export declare function report(options?: ReportOptions): void;
