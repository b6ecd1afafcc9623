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
  /** Do not wait: the callback is given `null` if the lock cannot be had at once. */
  ifAvailable?: boolean;
  /** Take the lock from whoever holds it: their promises reject with an `AbortError`. */
  steal?: boolean;
  /** Gives the request up while it waits. It is ignored once the callback has begun. */
  signal?: AbortSignal;
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

  /** What is held and waited for in the whole bucket, at one moment. */
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
export type Reach = 'process' | 'machine';

export interface UserAgentOptions {
  /** `'machine'` by default, or what `NAVLOCK_REACH` says: all processes of this user. */
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
   * From now on `locks` and `bucket()` throw an `InvalidStateError`. If it is private, all its requests
   * end, with an `InvalidStateError`, and its locks are lost; what others share goes on.
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
  /** Greater than that of all earlier locks of the name: a resource can refuse who comes late. */
  readonly fencingToken: bigint;
  /** Aborts when the lock is lost while it is held: stolen, or the broker gone for good. */
  readonly lost: AbortSignal;
  /** As in a snapshot. */
  readonly clientId: string;
  /** The name of the bucket that the lock is in. */
  readonly bucket: string;
  /**
   * `false`: nobody else has held the name since this thread last held it, exclusively and inspected, in a
   * callback that did not fail. What it knew then is still so. `true`: somebody may have, as fencing tokens
   * tell it: also if other names of the bucket were locked meanwhile, and mostly on etcd.
   */
  readonly changed: boolean;
}

/**
 * The `cause` of the `AbortError` of a lock that was lost: `STOLEN` by another request; `LEASE_ENDED`, as
 * on etcd, while its keeper did not answer; `DISCONNECTED`: the broker is gone for good; `RESET`: the data
 * of its keeper is gone; `REMOVED` by hand where it is kept; `CLOSED` with its user agent; `TERMINATED`
 * with its agent.
 */
export interface LossCause extends Error {
  readonly code: 'STOLEN' | 'LEASE_ENDED' | 'DISCONNECTED' | 'RESET' | 'REMOVED' | 'CLOSED' | 'TERMINATED';
  /** Of `STOLEN`: whose request it was, as in a snapshot, if the reach tells. */
  readonly clientId?: string;
}

/**
 * What there is to know of a lock beyond the standard. To be called while it is held; then also
 * later. Throws an `InvalidStateError` otherwise.
 */
export declare function inspect(lock: Lock): Inspection;

/** As {@link LockOptions}; locks are stolen one by one. */
export interface RequestMultipleOptions {
  mode?: LockMode;
  /** Do not wait: the callback is given `null`, and nothing is held, unless all can be had at once. */
  ifAvailable?: boolean;
  /** Gives the request up while it waits. It is ignored once the callback has begun. */
  signal?: AbortSignal;
}

/**
 * Requests several locks, one after the other in the order of their names, and runs `callback`
 * while all are held: those who do so never wait for each other in a cycle. The callback is given
 * the locks in the order of `names`; a name that is there twice is taken once.
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

/** A lock that is held until it is released. */
export interface HeldLock {
  readonly name: string;
  readonly mode: LockMode;
  /** What a callback would have been given, for {@link inspect}. */
  readonly lock: Lock;
  /** Aborts when the lock is lost. */
  readonly lost: AbortSignal;
  /**
   * Releases the lock; again and again it is the same promise. It is settled once the lock is free, and
   * rejected with the reason of {@link lost} if the lock had been lost.
   */
  release(): Promise<void>;
  /** {@link release}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** A lock manager of anybody, such as the runtime's own, as far as {@link hold} needs it. */
export interface LockRequester {
  request(name: string, options: any, callback: (lock: any) => any): Promise<any>;
}

/**
 * Requests a lock and holds it until it is released, for code that cannot put its work into a callback.
 * An object that is collected before it was released releases the lock, with a warning of the process.
 *
 * @returns `null` if the lock was wanted only if available, and is not
 */
export declare function hold(locks: LockRequester, name: string, options?: LockOptions & { ifAvailable?: false }): Promise<HeldLock>;
export declare function hold(locks: LockRequester, name: string, options: LockOptions): Promise<HeldLock | null>;

export interface LookOptions {
  /** Only this name; agents and clients are told of all the same. */
  name?: string;
  /** All buckets of the user agent, and not only that of the lock manager. */
  allBuckets?: boolean;
  /** Ends the look: who waits for news, or asks next, is rejected with the signal's reason. */
  signal?: AbortSignal;
}

/** A lock or request, and whose it is. What is not known is not there. */
export interface LookEntry {
  bucket: string;
  name: string;
  mode: LockMode;
  /** Whose it is, as in a snapshot. */
  clientId: string;
  /** Which of all that this agent has asked for, in decimal digits. */
  serial: string;
  /** The process; with reach `'process'` only if it says so. */
  pid?: number;
  command?: string;
  user?: string;
  host?: string;
  /** What it is for, as `navlock run --why` says it. */
  why?: string;
  /** What else it says of itself, as `navlock hold --meta` does. */
  meta?: Record<string, string>;
  /** Of a lock, in decimal digits. */
  fencingToken?: string;
  /** The locks inside which it was requested, as far as that was said, each as `clientId/serial`. */
  inside?: string[];
  /** How often its owner has taken the name without asking the broker. */
  taken?: number;
  /** For how many milliseconds it has been what it is; at least, if it was there before anybody looked. */
  ageMs?: number;
}

/**
 * What there is: the first news, and later whenever more has happened than could be told, something has changed on
 * other machines, at which the broker looks once a second, or the broker has ended or another one begun.
 */
export interface LookPicture {
  event: 'picture';
  /** As in {@link LookEvent}. */
  at: number;
  /** How many events were missed before it, because they were not asked for in time; they are in it. */
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
 * A look that goes on. A `break` out of `for await` ends it, as does {@link LookOptions.signal}. It keeps the
 * process alive only while somebody waits for its next news.
 */
export interface Look extends AsyncIterableIterator<LookPicture | LookEvent> {
  next(): Promise<IteratorResult<LookPicture | LookEvent, undefined>>;
  return(): Promise<IteratorReturnResult<undefined>>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Looks at the bucket of a lock manager: the first news are a picture of one moment, what follows is all that
 * happens on this machine from then on, in order. Nobody who locks waits for who looks: who does not ask for news in time is told how
 * many were missed, with a new picture. Where there is no broker, nobody holds anything, and it waits for one without
 * starting it; it is no client.
 *
 * Rejects with an `OperationError` where the broker does not tell (also if 64 look already), and with that or an
 * `InvalidStateError` where the user agent has been closed; who waits for news when that is, hears that there are no more. Throws a `TypeError` for options that make no sense.
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
   * `'warn'`: warns of a request that has waited for a second for a lock that a callback holds in which it
   * was made; `true`: rejects it with an `OperationError`.
   */
  strict?: boolean | 'warn';
  /**
   * `'warn'`: warns of requests that would wait for ever: each has waited for a second in a callback whose lock
   * others wait for who hold what it waits for, and so on. The text says who waits for what, across threads,
   * processes and `navlock run`. `true`: the one that came last is rejected with an `OperationError` besides, if it
   * was made here; its message is that text.
   */
  deadlocks?: boolean | 'warn';
}

/**
 * Which warnings of the process there are of requests that this thread makes from now on, in place of what
 * `NAVLOCK_REPORT_HELD`, `NAVLOCK_REPORT_WAITING`, `NAVLOCK_REPORT_STACKS`, `NAVLOCK_STRICT` and
 * `NAVLOCK_DEADLOCKS` say.
 */
export declare function report(options?: ReportOptions): void;
