//! The ends of agents, of contexts and of scripts that are stopped.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};

use boa_engine::{
    JsNativeError, JsValue, NativeFunction, job::PromiseJob, js_string, property::Attribute,
};
use kit::Page;
use navlock_boa::{
    Locks, LocksExtension,
    navlock::{LockManager, UserAgent, blocking::block_on},
};

/// A page, and another agent of its bucket.
fn page_and_peer() -> (Page, LockManager) {
    let user_agent = UserAgent::new();
    (Page::of(user_agent.lock_manager("app")), user_agent.lock_manager("app"))
}

#[track_caller]
fn is_free(peer: &LockManager, name: &'static str) -> bool {
    peer.lock(name).if_available().blocking().unwrap().is_some()
}

#[test]
fn a_context_that_is_dropped_releases_and_aborts_what_its_scripts_had() {
    let (mut page, peer) = page_and_peer();
    let guard = peer.lock("wanted").blocking().unwrap();
    page.eval(
        "navigator.locks.request('held', () => new Promise(() => {}));
        navigator.locks.request('not begun', () => {});",
    )
    .unwrap();
    assert!(!is_free(&peer, "held"));
    page.context.run_jobs().unwrap();
    page.eval(
        "navigator.locks.request('wanted', () => {});
        navigator.locks.request('not begun', () => {});
        navigator.locks.query();",
    )
    .unwrap();
    assert!(!is_free(&peer, "held"));
    let Page { context, locks, .. } = page;
    drop(context);
    assert!(is_free(&peer, "held"));
    assert!(is_free(&peer, "not begun"));
    assert!(block_on(peer.query()).unwrap().pending.is_empty());
    drop(guard);
    assert!(is_free(&peer, "wanted"));
    assert!(!locks.is_waiting(), "the handle knows that its agent has ended");
}

#[test]
fn a_waiter_for_the_lock_of_a_dropped_context_is_granted() {
    let (mut page, peer) = page_and_peer();
    page.run("navigator.locks.request('db', () => new Promise(() => {}))");
    let waits = std::thread::spawn({
        let peer = peer.clone();
        move || peer.lock("db").blocking().map(drop)
    });
    while block_on(peer.query()).unwrap().pending.is_empty() {
        std::thread::yield_now();
    }
    drop(page);
    assert_eq!(waits.join().unwrap(), Ok(()));
}

#[test]
fn two_contexts_of_a_thread_end_apart() {
    let user_agent = UserAgent::new();
    let peer = user_agent.lock_manager("app");
    let [mut first, mut second] = [(); 2].map(|()| Page::of(user_agent.lock_manager("app")));
    first.run("navigator.locks.request('first', () => new Promise(() => {}))");
    second.run("navigator.locks.request('second', () => new Promise(() => {}))");
    drop(first);
    assert!(is_free(&peer, "first"));
    assert!(!is_free(&peer, "second"));
    assert_eq!(second.run("navigator.locks.request('first', () => log('works'))"), "works");
}

#[test]
fn an_agent_that_ends_within_its_own_callback_has_nothing_any_more() {
    let (mut page, peer) = page_and_peer();
    let end = NativeFunction::from_fn_ptr(|_, _, context| {
        Locks::of(context).unwrap().end();
        Ok(JsValue::undefined())
    });
    page.context.register_global_builtin_callable(js_string!("end"), 0, end).unwrap();
    let logged = page.run(
        "settled(navigator.locks.request('db', () => { end(); log('goes on'); return 'value'; }), 'held');
        settled(navigator.locks.request('db', () => log('never')), 'waited');",
    );
    assert_eq!(logged, "goes on");
    assert!(is_free(&peer, "db"));
    let logged = page.run(
        "settled(navigator.locks.request('db', () => {}), 'request');
        settled(navigator.locks.query(), 'query');",
    );
    assert_eq!(logged, "request rejected InvalidStateError; query rejected InvalidStateError");
}

#[test]
fn a_context_that_is_dropped_by_a_panic_within_a_callback_holds_nothing() {
    let (mut page, peer) = page_and_peer();
    let crash = NativeFunction::from_fn_ptr(|_, _, _| panic!("as planned"));
    page.context.register_global_builtin_callable(js_string!("crash"), 0, crash).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(move || {
        let mut page = page;
        page.run(
            "navigator.locks.request('other', () => new Promise(() => {}));
            navigator.locks.request('db', () => crash());",
        )
    }));
    assert!(outcome.is_err());
    assert!(is_free(&peer, "db"));
    assert!(is_free(&peer, "other"));
}

#[test]
fn a_panic_of_the_host_holds_nothing_of_what_it_has_gone_through() {
    for callback in [
        "() => crash()",
        "() => ({ get then() { crash(); } })",
        "() => ({ then() { crash(); } })",
        "() => Object.defineProperty(Promise.resolve(), 'constructor', { get: crash })",
        "() => { const it = {}; const of = Promise.resolve(it); Object.defineProperty(it, 'then', { get: crash }); return of; }",
    ] {
        let (mut page, peer) = page_and_peer();
        let crash = NativeFunction::from_fn_ptr(|_, _, _| panic!("as planned"));
        page.context.register_global_builtin_callable(js_string!("crash"), 0, crash).unwrap();
        page.eval(&format!("navigator.locks.request('db', {callback});")).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| page.context.run_jobs()));
        assert!(outcome.is_err(), "{callback}");
        assert!(is_free(&peer, "db"), "{callback}");
    }
}

#[test]
fn a_job_that_fails_keeps_no_lock_of_which_another_job_was_to_be_the_last() {
    let (mut page, peer) = page_and_peer();
    let fails = NativeFunction::from_fn_ptr(|_, _, context| {
        let error = || JsNativeError::error().with_message("as planned");
        context.enqueue_job(PromiseJob::new(move |_| Err(error().into())).into());
        Ok(JsValue::undefined())
    });
    page.context.register_global_builtin_callable(js_string!("fails"), 0, fails).unwrap();
    for callback in ["() => { fails(); }", "() => { fails(); return Promise.resolve(); }"] {
        page.eval(&format!("settled(navigator.locks.request('db', {callback}));")).unwrap();
        // Boa's executor drops all of its jobs then.
        page.context.run_jobs().unwrap_err();
        assert!(is_free(&peer, "db"), "{callback}");
        let logged = page.run("navigator.locks.request('db', (lock) => log('next', lock.name))");
        assert_eq!(logged, " rejected AbortError; next db", "{callback}");
    }
}

#[test]
fn a_returned_thenable_that_reaches_a_limit_holds_nothing() {
    for returned in [
        "({ get then() { for (;;); } })",
        "({ then() { for (;;); } })",
        "({ then(resolve) { resolve(new Promise(() => {})); for (;;); } })",
        "Object.defineProperty(Promise.resolve(), 'constructor', { get() { for (;;); } })",
        "gets({ get then() { for (;;); } })",
        "gets({ then() { for (;;); } })",
    ] {
        let (mut page, peer) = page_and_peer();
        page.context.runtime_limits_mut().set_loop_iteration_limit(10_000);
        page.eval(&format!(
            "
            // A promise of an object that gets its `then` later.
            const gets = (properties) => {{
                const object = {{}};
                const promise = Promise.resolve(object);
                Object.defineProperties(object, Object.getOwnPropertyDescriptors(properties));
                return promise;
            }};
            navigator.locks.request('db', () => {returned});"
        ))
        .unwrap();
        let error = page.context.run_jobs().unwrap_err();
        assert!(error.as_engine().is_some(), "{returned}: {error}");
        assert!(is_free(&peer, "db"), "{returned}");
        let logged = page.run("navigator.locks.request('db', (lock) => log('next', lock.name))");
        assert_eq!(logged, "next db", "{returned}");
    }
}

#[test]
fn a_callback_that_reaches_a_limit_holds_nothing() {
    for script in ["for (;;);", "(function deeper() { deeper(); })();"] {
        let (mut page, peer) = page_and_peer();
        page.context.runtime_limits_mut().set_loop_iteration_limit(10_000);
        page.eval(&format!("settled(navigator.locks.request('db', () => {{ {script} }}))"))
            .unwrap();
        let error = page.context.run_jobs().unwrap_err();
        assert!(error.as_engine().is_some(), "{error}");
        assert!(is_free(&peer, "db"), "{script}");
        let logged = page.run("navigator.locks.request('db', (lock) => log('next', lock.name))");
        assert!(logged.ends_with("next db"), "{logged}");
    }
}

#[test]
fn a_limit_that_is_reached_before_the_request_is_made_leaves_nothing() {
    let (mut page, peer) = page_and_peer();
    page.context.runtime_limits_mut().set_loop_iteration_limit(10_000);
    for arguments in [
        "{ toString() { for (;;); } }, () => {}",
        "'db', { get mode() { for (;;); } }, () => {}",
        "'db', { get steal() { (function deeper() { deeper(); })(); } }, () => {}",
    ] {
        let outcome = page.eval(&format!("navigator.locks.request({arguments})"));
        let error = outcome.unwrap_err();
        assert!(error.as_engine().is_some(), "{error}");
        page.context.run_jobs().unwrap();
        let state = block_on(peer.query()).unwrap();
        assert!(state.held.is_empty() && state.pending.is_empty(), "{arguments}: {state:?}");
    }
}

#[test]
fn a_callback_stopped_by_a_limit_after_an_await_holds_until_the_agent_ends() {
    let (mut page, peer) = page_and_peer();
    page.context.runtime_limits_mut().set_loop_iteration_limit(10_000);
    // Boa does not continue the function, and tells nobody.
    let script = "settled(navigator.locks.request('db', async () => { await null; for (;;); }))";
    assert_eq!(page.run(script), "");
    assert!(!is_free(&peer, "db"));
    page.locks.end();
    assert!(is_free(&peer, "db"));
}

#[test]
fn limits_of_the_embedder_do_not_keep_it_from_being_registered() {
    let mut context = boa_engine::Context::default();
    context.runtime_limits_mut().set_loop_iteration_limit(1);
    let locks = UserAgent::new().lock_manager("app");
    navlock_boa::register(&mut context, locks).unwrap();
    assert_eq!(context.runtime_limits().loop_iteration_limit(), 1);
}

#[test]
fn a_realm_that_requests_much_leaves_nothing_of_it_behind() {
    let (mut page, peer) = page_and_peer();
    page.eval(
        "globalThis.callbacks = [];
        globalThis.controller = new AbortController();
        for (let at = 0; at < 200; at++) {
            const callback = () => {};
            callbacks.push(new WeakRef(callback));
            navigator.locks.request('db', { signal: controller.signal }, callback);
        }",
    )
    .unwrap();
    page.context.run_jobs().unwrap();
    boa_gc::force_collect();
    let alive = page.text("callbacks.filter((callback) => callback.deref()).length");
    // The last may still lie on the engine's stack.
    assert!(alive.parse::<u32>().unwrap() <= 2, "{alive} callbacks are alive");
    assert!(is_free(&peer, "db"));
}

#[test]
fn scripts_that_still_have_the_object_of_an_agent_that_has_ended_are_refused() {
    let user_agent = UserAgent::new();
    let mut page = Page::of(user_agent.lock_manager("app"));
    for at in 0..100 {
        let locks = LocksExtension::new(user_agent.lock_manager("short"));
        let locks = locks.open(None, &mut page.context).unwrap();
        if at == 0 {
            let object = locks.object(&page.context).unwrap();
            let all = Attribute::all();
            page.context.register_global_property(js_string!("other"), object, all).unwrap();
            assert_eq!(page.run("other.request('db', () => log('works'))"), "works");
        }
        locks.end();
    }
    assert_eq!(Locks::all(&page.context).len(), 1);
    let logged = page.run(
        "settled(other.request('db'));
        settled(other.request('db', () => {}));
        settled(other.query());
        settled(navigator.locks.request('db', () => 'works'));",
    );
    let refused = " rejected TypeError;  rejected InvalidStateError;  rejected InvalidStateError";
    assert_eq!(logged, format!("{refused};  fulfilled works"));
}
