//! Arguments, checks and interfaces: rules 17 to 22 of CONFORMANCE.md. The conformance suite has them
//! in full; here is what the adapter of the engine could break.

mod kit;

use kit::Page;
use navlock_boa::{
    LocksExtension,
    navlock::{Mode, UserAgent},
};

#[test]
fn the_interface_objects_are_as_web_idl_has_them() {
    let mut page = Page::new();
    page.eval(
        "const shape = (object, key) => {
            const { value, get, set, writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(object, key);
            return [get ? 'getter' : typeof value, set && 'setter', writable && 'w', enumerable && 'e', configurable && 'c'].filter(Boolean).join(' ');
        };
        const keys = (object) => Reflect.ownKeys(object).map(String).sort().join();
        const thrown = (call) => { try { return call(); } catch (error) { return error.name; } };",
    )
    .unwrap();
    for (expression, expected) in [
        ("shape(globalThis, 'Lock')", "function w c"),
        ("shape(globalThis, 'LockManager')", "function w c"),
        ("shape(globalThis, 'navigator')", "getter e c"),
        ("shape(Navigator.prototype, 'locks')", "getter e c"),
        ("shape(LockManager, 'prototype')", "object"),
        ("shape(LockManager.prototype, 'request')", "function w e c"),
        ("shape(Lock.prototype, 'name')", "getter e c"),
        ("shape(Lock.prototype, Symbol.toStringTag)", "string c"),
        ("keys(LockManager.prototype)", "Symbol(Symbol.toStringTag),constructor,query,request"),
        ("keys(Lock.prototype)", "Symbol(Symbol.toStringTag),constructor,mode,name"),
        ("keys(navigator.locks)", ""),
        ("[LockManager.name, LockManager.length, Lock.name].join()", "LockManager,0,Lock"),
        ("[navigator.locks.request.length, navigator.locks.query.length].join()", "2,0"),
        ("Object.getOwnPropertyDescriptor(Lock.prototype, 'mode').get.name", "get mode"),
        ("thrown(() => new LockManager())", "TypeError"),
        ("thrown(() => LockManager())", "TypeError"),
        ("thrown(() => new (class extends Lock {})())", "TypeError"),
        ("thrown(() => new navigator.locks.request('db', () => {}))", "TypeError"),
        ("thrown(() => Lock.prototype.name)", "TypeError"),
        ("thrown(() => Navigator.prototype.locks)", "TypeError"),
        ("navigator.locks === navigator.locks", "true"),
        ("navigator.locks instanceof LockManager", "true"),
        ("String(navigator.locks)", "[object LockManager]"),
        ("String(navigator)", "[object Navigator]"),
    ] {
        assert_eq!(page.text(expression), expected, "{expression}");
    }
}

#[test]
fn every_failure_is_a_rejection() {
    let mut page = Page::new();
    let calls = [
        ("request()", "TypeError"),
        ("request('db')", "TypeError"),
        ("request('db', null)", "TypeError"),
        ("request(Symbol('db'), () => {})", "TypeError"),
        ("request({ toString() { throw 'name'; } }, () => {})", "name"),
        ("request('db', 1, () => {})", "TypeError"),
        ("request('db', { mode: 'none' }, () => {})", "TypeError"),
        ("request('db', { signal: null }, () => {})", "TypeError"),
        (
            "request('db', { signal: new Proxy(new AbortController().signal, {}) }, () => {})",
            "TypeError",
        ),
        ("request('db', { get steal() { throw 'getter'; } }, () => {})", "getter"),
        ("request('db', new Proxy({}, { get() { throw 'proxy'; } }), () => {})", "proxy"),
        ("request.call({}, 'db', () => {})", "TypeError"),
        ("request.call(undefined, 'db', () => {})", "TypeError"),
        ("query.call(LockManager.prototype)", "TypeError"),
        ("request('-db', () => {})", "NotSupportedError"),
        ("request('db', { steal: true, ifAvailable: true }, () => {})", "NotSupportedError"),
        (
            "request('db', { steal: true, signal: AbortSignal.abort() }, () => {})",
            "NotSupportedError",
        ),
        ("request('db', { signal: AbortSignal.abort() }, () => {})", "AbortError"),
        ("request('db', { signal: AbortSignal.abort(0) }, () => {})", "0"),
    ];
    for (call, expected) in calls {
        let logged = page.run(&format!("settled(navigator.locks.{call})"));
        assert_eq!(logged, format!(" rejected {expected}"), "{call}");
    }
    let left = page.run(
        "navigator.locks.query().then(({ held, pending }) => log(held.length, pending.length))",
    );
    assert_eq!(left, "0 0");
}

#[test]
fn members_are_read_once_and_in_order_and_a_proxy_is_as_good_as_an_object() {
    let logged = Page::new().run(
        "const options = new Proxy({ mode: 'shared' }, { get(target, key) { log(key); return target[key]; } });
        const name = { toString() { log('to string'); return 'db'; } };
        navigator.locks.request(name, options, (lock) => log(lock.name, lock.mode));",
    );
    assert_eq!(logged, "to string; ifAvailable; mode; signal; steal; db shared");
}

#[test]
fn names_keep_their_lone_surrogates() {
    let logged = Page::new().run(
        r"navigator.locks.request('\uD800', async (lock) => {
            log(lock.name === '\uD800', lock.name === '\uD801');
            const { held: [{ name }] } = await navigator.locks.query();
            log(name === '\uD800');
        })",
    );
    assert_eq!(logged, "true false; true");
}

#[test]
fn a_snapshot_has_the_shape_of_the_specification() {
    let mut page = Page::new();
    let client_id = page.locks.lock_manager().client_id();
    let logged = page.run(
        "navigator.locks.request('db', { mode: 'shared' }, async () => {
            const waits = new AbortController();
            navigator.locks.request('db', { signal: waits.signal }, () => {}).catch(() => {});
            log(JSON.stringify(await navigator.locks.query()));
            waits.abort();
        })",
    );
    let entry = |mode: Mode| format!(r#"{{"clientId":"{client_id}","mode":"{mode}","name":"db"}}"#);
    let (held, pending) = (entry(Mode::Shared), entry(Mode::Exclusive));
    assert_eq!(logged, format!(r#"{{"held":[{held}],"pending":[{pending}]}}"#));
}

#[test]
fn a_realm_that_is_not_fully_active_is_told_so_first() {
    let mut page = Page::new();
    page.locks.set_fully_active(false);
    let logged = page.run(
        "settled(navigator.locks.request('-', () => {}), 'request');
        settled(navigator.locks.query(), 'query');",
    );
    assert_eq!(logged, "request rejected InvalidStateError; query rejected InvalidStateError");
    page.locks.set_fully_active(true);
    assert_eq!(page.run("navigator.locks.request('db', () => log('active'))"), "active");
}

#[test]
fn a_bucket_without_a_lock_manager_is_a_security_error() {
    let mut page = Page::of(UserAgent::new().opaque_bucket().lock_manager());
    let logged = page.run("settled(navigator.locks.request('-', () => {}))");
    assert_eq!(logged, " rejected SecurityError");
}

#[test]
fn signals_of_other_realms_of_the_context_abort_requests() {
    let mut page = Page::new();
    let realm = page.context.create_realm().unwrap();
    let outer = page.context.enter_realm(realm);
    LocksExtension::default().register(None, &mut page.context).unwrap();
    let controller = page.eval("new AbortController()").unwrap();
    page.context.enter_realm(outer);
    let attribute = boa_engine::property::Attribute::all();
    page.context
        .register_global_property(boa_engine::js_string!("theirs"), controller, attribute)
        .unwrap();
    let logged = page.run(
        "navigator.locks.request('db', async () => {
            const { signal } = theirs;
            settled(navigator.locks.request('db', { signal }, () => log('never')));
            theirs.abort('reason');
            await null;
        });",
    );
    assert_eq!(logged, " rejected reason");
    let logged =
        page.run("settled(navigator.locks.request('db', { signal: theirs.signal }, () => {}))");
    assert_eq!(logged, " rejected reason");
}

#[test]
fn a_signal_of_a_timeout_aborts_by_timers_of_the_job_executor() {
    let logged = Page::new().run(
        "navigator.locks.request('db', () => new Promise(() => {}));
        const signal = AbortSignal.timeout(1);
        settled(navigator.locks.request('db', { signal }, () => log('never')));",
    );
    assert_eq!(logged, " rejected TimeoutError");
}

#[test]
fn an_extension_is_registered_once_in_a_realm() {
    let mut page = Page::new();
    let again = LocksExtension::default().register(None, &mut page.context);
    let message = again.unwrap_err().to_string();
    assert!(message.contains("navigator.locks is registered in this realm already"), "{message}");
}

#[test]
fn a_navigator_that_is_there_stays() {
    let mut context = boa_engine::Context::default();
    let script = "globalThis.navigator = { userAgent: 'mine' };";
    context.eval(boa_engine::Source::from_bytes(script)).unwrap();
    let mut page = Page::with(LocksExtension::default(), context);
    assert_eq!(page.text("navigator.userAgent"), "mine");
    assert_eq!(page.text("typeof Navigator"), "undefined");
    assert_eq!(page.run("navigator.locks.request('db', (lock) => log(lock.name))"), "db");
}

#[test]
fn an_error_is_converted_as_any_other_object() {
    let logged = Page::new().run(
        "const throws = (message) => Object.assign(new Error(message), { toString() { throw 'no text'; } });
        settled(navigator.locks.request(throws('db'), () => 'called'), 'name');
        settled(navigator.locks.request('db', { mode: throws('shared') }, () => 'called'), 'mode');
        settled(navigator.locks.request(new Error('db'), (lock) => lock.name), 'plain');",
    );
    assert_eq!(logged, "name rejected no text; mode rejected no text; plain fulfilled Error: db");
}
