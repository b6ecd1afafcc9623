//! Requests, callbacks and what becomes of them: rules 7 to 13 of CONFORMANCE.md.

mod kit;

use kit::Page;

#[test]
fn a_callback_is_called_with_the_lock_and_its_value_is_that_of_the_promise() {
    let logged = Page::new().run(
        "'use strict';
        settled(navigator.locks.request('db', function (lock, ...more) {
            log(this, more.length, lock, lock.name, lock.mode);
            return 'value';
        }))",
    );
    assert_eq!(logged, "undefined 0 [object Lock] db exclusive;  fulfilled value");
}

#[test]
fn a_callback_runs_after_the_microtasks_that_were_queued_before() {
    let logged = Page::new().run(
        "let chain = Promise.resolve();
        for (let link = 1; link <= 8; link++) chain = chain.then(() => log('microtask', link));
        navigator.locks.request('db', () => log('callback'));
        navigator.locks.request('db', { ifAvailable: true }, (lock) => log('callback', lock));
        log('script');",
    );
    let microtasks: Vec<_> = (1..=8).map(|link| format!("microtask {link}")).collect();
    let expected = format!("script; {}; callback; callback null", microtasks.join("; "));
    assert_eq!(logged, expected);
}
