'use strict';
// Queries: <https://w3c.github.io/web-locks/#snapshot-the-lock-state>.

const { deferred } = require('./deferred.cjs');

/** A query. It is an `Entry` of realm.cjs. */
class Query {
  /** @param {(query: Query) => unknown} read  takes the answer from the realm */
  constructor(realm, read) {
    this.realm = realm;
    this.read = read;
    const { promise, resolve, reject } = deferred();
    this.promise = promise;
    this.resolve = resolve;
    this.reject = reject;
    this.isWaiting = false;
    this.id = -1;
    this.news = 0;
  }

  onPending() {
    this.realm.keepAlive.start();
    this.isWaiting = true;
  }

  onGranted() {
    this.stopWaiting();
    // In a task, like callbacks: the callbacks of earlier grants run first.
    this.realm.tasks.queue(answer, this);
  }

  onFailed() {
    this.reject(this.realm.failure(this));
    this.end();
  }

  end() {
    this.stopWaiting();
    if (this.id >= 0) this.realm.release(this);
  }

  stopWaiting() {
    if (!this.isWaiting) return;
    this.realm.keepAlive.stop();
    this.isWaiting = false;
    this.realm.keepAlive.releaseLater();
  }
}

Object.setPrototypeOf(Query.prototype, null);

/** The task of an answer. */
function answer(query) {
  const { id, read } = query;
  if (id < 0) return; // given up meanwhile
  const answered = read(query);
  query.end();
  query.resolve(answered);
}

/**
 * @param {import('./requests.cjs').OpenManager} manager
 * @returns {Promise<{ held: object[], pending: object[] }>}
 */
function queryLocks({ number, realm }) {
  const query = new Query(realm, readSnapshot);
  realm.query(query, number, null);
  return query.promise;
}

function readSnapshot(query) {
  return query.realm.snapshot(query);
}

/**
 * Asks who holds a name, as far as the reach knows.
 *
 * @param {import('./requests.cjs').OpenManager} manager
 * @returns {Query} its promise is of {@link import('./realm.cjs').Holder} or `null`
 */
function askHolder({ number, realm }, name) {
  const query = new Query(realm, readHolder);
  realm.query(query, number, name);
  return query;
}

function readHolder(query) {
  return query.realm.holder(query);
}

module.exports = { askHolder, queryLocks };
