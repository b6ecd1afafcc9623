//! Callbacks and what becomes of their locks: rules 7 to 13 of CONFORMANCE.md.

mod kit;

use kit::Page;

#[test]
fn a_callback_is_called_with_the_lock_and_its_value_is_that_of_the_promise() {
    let logged = Page::new().run(
        "'use strict';
        settled(navigator.locks.request('db', function (lock, ...more) {
            log(this, more.length, lock, lock.name, lock.mode);
            return 'value';
        }));",
    );
    assert_eq!(logged, "undefined 0 [object Lock] db exclusive;  fulfilled value");
}

#[test]
fn a_callback_runs_in_a_task_after_the_microtasks_that_were_queued_before() {
    let logged = Page::new().run(
        "let chain = Promise.resolve();
        for (let link = 1; link <= 8; link++) chain = chain.then(() => log('microtask', link));
        navigator.locks.request('db', () => {
            log('callback');
            Promise.resolve().then(() => log('its microtask')).then(() => log('and the next'));
        });
        navigator.locks.request('db', { ifAvailable: true }, (lock) => log('callback', lock));
        log('script');",
    );
    let microtasks: Vec<_> = (1..=8).map(|link| format!("microtask {link}")).collect();
    let microtasks = microtasks.join("; ");
    let callbacks = "callback; its microtask; and the next; callback null";
    assert_eq!(logged, format!("script; {microtasks}; {callbacks}"));
}

#[test]
fn a_signal_that_aborts_between_the_grant_and_the_callback_has_the_lock_released() {
    let logged = Page::new().run(
        "const controller = new AbortController();
        const { signal } = controller;
        settled(navigator.locks.request('db', { signal }, () => log('never')), 'aborted');
        settled(navigator.locks.request('db', () => log('next')), 'next');
        controller.abort('reason');",
    );
    assert_eq!(logged, "aborted rejected reason; next; next fulfilled undefined");
}

#[test]
fn a_signal_is_ignored_once_the_callback_was_called() {
    let logged = Page::new().run(
        "const controller = new AbortController();
        const { signal } = controller;
        settled(navigator.locks.request('db', { signal }, async () => {
            controller.abort();
            await null;
            return 'value';
        }));",
    );
    assert_eq!(logged, " fulfilled value");
}

#[test]
fn a_callback_that_throws_rejects_the_promise_and_releases_the_lock() {
    let logged = Page::new().run(
        "settled(navigator.locks.request('db', () => { throw 'as planned'; }), 'threw');
        settled(navigator.locks.request('db', async () => { throw 'as planned'; }), 'rejected');
        settled(navigator.locks.request('db', () => 'free'), 'next');",
    );
    assert_eq!(
        logged,
        "threw rejected as planned; rejected rejected as planned; next fulfilled free"
    );
}

#[test]
fn a_thenable_holds_the_lock_until_it_is_settled() {
    let logged = Page::new().run(
        "let settle;
        const thenable = { then(resolve) { settle = resolve; } };
        settled(navigator.locks.request('db', () => thenable), 'thenable');
        navigator.locks.request('db', { ifAvailable: true }, (lock) => log('while it holds', lock));
        navigator.locks.request('other', () => settle('value'));
        navigator.locks.request('db', (lock) => log('after it', lock));",
    );
    assert_eq!(logged, "while it holds null; thenable fulfilled value; after it [object Lock]");
}

#[test]
fn the_lock_is_free_when_the_promise_of_its_request_is_settled() {
    let logged = Page::new().run(
        "const seen = (lock) => log(lock);
        const again = () => navigator.locks.request('db', { ifAvailable: true }, seen);
        navigator.locks.request('db', () => 'value').then(again);
        navigator.locks.request('other', async () => { throw 'reason'; }).catch(
            () => navigator.locks.request('other', { ifAvailable: true }, seen));",
    );
    assert_eq!(logged, "[object Lock]; [object Lock]");
}

#[test]
fn changes_of_promises_by_scripts_do_not_disturb_requests() {
    let logged = Page::new().run(
        "const { then } = Promise.prototype;
        const request = navigator.locks.request('db', async () => 'value');
        const thenable = { then: (resolve) => resolve('of a thenable') };
        const another = navigator.locks.request('db', () => thenable);
        Object.defineProperty(Promise.prototype, 'constructor', { get() { log('constructor'); } });
        Promise.resolve = () => log('resolve');
        Reflect.apply(then, request, [log]);
        Reflect.apply(then, another, [log]);",
    );
    // Two are this script's `then`; one is how the language adopts a promise that a callback has returned.
    assert_eq!(logged, "constructor; constructor; constructor; value; of a thenable");
}

#[test]
fn locks_are_stolen_and_the_victim_changes_nothing_later() {
    let mut page = Page::new();
    page.run(
        "let release;
        settled(navigator.locks.request('db', () => new Promise((resolve) => release = resolve)), 'victim');",
    );
    let logged = page.run(
        "navigator.locks.request('db', { mode: 'shared' }, (lock) => log('waiter', lock.mode));
        settled(navigator.locks.request('db', { steal: true }, async () => {
            release();
            await null;
            navigator.locks.request('db', { ifAvailable: true }, (lock) => log('while it is held', lock));
            for (let turn = 0; turn < 50; turn++) await null;
        }), 'thief');",
    );
    assert_eq!(
        logged,
        "victim rejected AbortError; while it is held null; thief fulfilled undefined; waiter shared"
    );
}
