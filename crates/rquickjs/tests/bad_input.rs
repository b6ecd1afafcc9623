//! Scripts that throw in unusual places, and values of every kind: nothing stays held, nothing
//! panics, and nothing leaks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{alone, context, log, step};
use navlock_rquickjs::navlock::UserAgent;
use rquickjs::{Function, Object, Persistent, Runtime};

#[test]
fn a_callback_that_throws_rejects_and_releases() {
    let told = alone().told(
        "
        follow('first', navigator.locks.request('db', () => { throw 'mine'; }));
        follow('second', navigator.locks.request('db', () => 'granted'));",
    );
    assert_eq!(told, "first failed: mine, second: granted");
}

#[test]
fn a_throw_of_a_getter_or_a_proxy_is_a_rejection() {
    let told = alone().told("
        const thrower = new Proxy({}, { get(target, key) { throw `no ${String(key)}`; } });
        const revoked = Proxy.revocable({}, {});
        revoked.revoke();
        follow('options', navigator.locks.request('db', thrower, () => {}));
        follow('revoked', navigator.locks.request('db', revoked.proxy, () => {}));
        follow('name', navigator.locks.request({ toString() { throw 'no name'; } }, () => {}));
        follow('symbol', navigator.locks.request(Symbol('db'), () => {}));
        follow('signal', navigator.locks.request('db', { signal: new Proxy(new AbortController().signal, {}) }, () => {}));
        follow('thenable', navigator.locks.request('db', () => ({ get then() { throw 'no then'; } })));
        follow('free', navigator.locks.request('db', { ifAvailable: true }, (lock) => lock !== null));");
    let mut told: Vec<_> = told.split(", ").collect();
    told.sort_unstable();
    let expected = [
        "free: false",
        "name failed: no name",
        "options failed: no ifAvailable",
        "revoked failed: TypeError: revoked proxy",
        "signal failed: TypeError: the option signal of request() is not an AbortSignal",
        "symbol failed: TypeError: cannot convert symbol to string",
        "thenable failed: no then",
    ];
    assert_eq!(told, expected);
}

#[test]
fn an_error_is_converted_as_any_other_object() {
    let told = alone().told("
        const throws = (message) => Object.assign(new Error(message), { toString() { throw 'no text'; } });
        follow('name', navigator.locks.request(throws('db'), () => 'called'));
        follow('mode', navigator.locks.request('db', { mode: throws('shared') }, () => 'called'));
        follow('plain', navigator.locks.request(new Error('db'), (lock) => lock.name));");
    assert_eq!(told, "name failed: no text, mode failed: no text, plain: Error: db");
}

#[test]
fn a_callback_can_be_a_proxy_and_its_options_too() {
    let told = alone().told("
        const callback = new Proxy((lock) => lock.mode, {});
        const read = [];
        const options = new Proxy({ mode: 'shared' }, { get: (target, key) => (read.push(key), target[key]) });
        follow('proxies', navigator.locks.request('db', options, callback).then((mode) => `${mode} ${read}`));");
    assert_eq!(told, "proxies: shared ifAvailable,mode,signal,steal");
}

#[test]
fn a_function_of_the_interface_on_anything_else_is_a_rejection() {
    let told = alone().told("
        const { request, query } = LockManager.prototype;
        for (const it of [undefined, null, 1, {}, Object.create(LockManager.prototype), new Proxy(navigator.locks, {})]) {
            for (const method of [request, query]) {
                follow(method.name, method.call(it, 'db', () => {}));
            }
        }
        const { get } = Object.getOwnPropertyDescriptor(Lock.prototype, 'name');
        try { get.call({}); } catch (error) { note(error); }
        try { Object.getPrototypeOf(navigator).locks; } catch (error) { note(error); }");
    let both = "request failed: TypeError: request() was called on what is no LockManager, \
                query failed: TypeError: query() was called on what is no LockManager";
    let thrown = "TypeError: this is no Lock, TypeError: this is no Navigator, ";
    assert_eq!(told, format!("{thrown}{}", [both; 6].join(", ")));
}

#[test]
fn signals_and_lock_managers_of_another_context_are_such_here_as_well() {
    let user_agent = UserAgent::new();
    let runtime = Runtime::new().unwrap();
    let own = context(&runtime, user_agent.lock_manager("app"));
    let other = context(&runtime, user_agent.lock_manager("app"));
    let passed = other.with(|ctx| {
        let made = "const controller = new AbortController();
            ({ controller, signal: controller.signal, locks: navigator.locks })";
        Persistent::save(&ctx, ctx.eval::<Object<'_>, _>(made).unwrap())
    });
    own.with(|ctx| {
        ctx.globals().set("other", passed.restore(&ctx).unwrap()).unwrap();
        let script = "
            const { signal } = other;
            follow('runs', navigator.locks.request('db', { signal }, () => signal.aborted));
            navigator.locks.request('held', () => new Promise(() => {}));
            follow('waits', navigator.locks.request('held', { signal }, () => {}));
            const { request } = LockManager.prototype;
            follow('theirs', request.call(other.locks, 'theirs', (lock) => `${lock} ${lock instanceof Lock}`));";
        ctx.eval::<(), _>(script).unwrap();
    });
    step(&other);
    step(&own);
    assert_eq!(log(&own), "theirs: [object Lock] false, runs: false");
    own.with(|ctx| ctx.eval::<(), _>("other.controller.abort('theirs');").unwrap());
    step(&own);
    assert_eq!(log(&own), "waits failed: theirs");
    // The signal is still a signal here after the host has dropped the signal's context.
    drop(other);
    runtime.run_gc();
    let script =
        "follow('late', navigator.locks.request('held', { signal: other.signal }, () => {}));
        globalThis.other = undefined;";
    own.with(|ctx| ctx.eval::<(), _>(script).unwrap());
    step(&own);
    assert_eq!(log(&own), "late failed: theirs");
}

#[test]
fn a_panic_of_the_host_goes_on_where_the_host_has_called() {
    fn panics() {
        panic!("the host's own");
    }
    let program = alone();
    program.context.with(|ctx| {
        let panics = Function::new(ctx.clone(), panics).unwrap();
        ctx.globals().set("panics", panics).unwrap();
    });
    let message = |run: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        *panic.downcast::<&str>().unwrap()
    };
    // The function panics while a name is converted, which a function of the interface does.
    let convert = || program.eval::<()>("navigator.locks.request({ toString: panics }, () => {});");
    assert_eq!(message(&convert), "the host's own");
    // The function panics in a callback, or in a value that a callback returned.
    let callbacks = [
        "() => panics()",
        "() => ({ get then() { panics(); } })",
        "() => ({ then() { panics(); } })",
        "() => Object.defineProperty(Promise.resolve(), 'constructor', { get() { panics(); } })",
        "() => { const it = {}; const of = Promise.resolve(it); Object.defineProperty(it, 'then', { get() { panics(); } }); return of; }",
    ];
    for callback in callbacks {
        program
            .eval::<()>(&format!("follow('called', navigator.locks.request('db', {callback}));"));
        // A panic in a job goes on when the next call by rquickjs fails.
        let step = || {
            program.step();
            program.context.with(|ctx| assert!(ctx.eval::<(), _>("throw 'anything'").is_err()));
        };
        assert_eq!(message(&step), "the host's own", "{callback}");
        // The panic leaves nothing behind that the next request would see.
        assert_eq!(
            program.told("follow('next', navigator.locks.request('db', () => 1));"),
            "called failed: AbortError: the callback was stopped, next: 1",
            "{callback}"
        );
    }
}

#[test]
fn a_lone_surrogate_survives_as_name_and_in_snapshots() {
    let told = alone().told(r"
        const name = 'a\uD800' + '\u0000' + '\uDC00b\u{1F512}';
        follow('same', navigator.locks.request(name, async (lock) => {
            const { held } = await navigator.locks.query();
            return lock.name === name && held.some((of) => of.name === name);
        }));
        follow('other', navigator.locks.request('a\uD801' + '\u0000' + '\uDC00b\u{1F512}', { ifAvailable: true }, (lock) => lock !== null));");
    assert_eq!(told, "other: true, same: true");
}

#[test]
fn changes_of_the_language_by_scripts_change_nothing() {
    let program = alone();
    // The script makes all changes at once, in a context that no other test uses.
    program.eval::<()>("
        const controller = new AbortController();
        const { prototype } = Promise;
        const { then, constructor } = prototype;
        const never = (what) => () => { note(`a script was asked for ${what}`); throw 'never'; };
        const trap = { set: never('a setter'), configurable: true };
        prototype.then = never('then');
        Object.defineProperty(prototype, 'constructor', { get: never('constructor'), configurable: true });
        Promise.resolve = Promise.reject = never('resolve');
        for (const key of ['held', 'name', 'mode']) Object.defineProperty(Object.prototype, key, trap);
        Object.defineProperty(Array.prototype, '0', trap);
        String.prototype.charCodeAt = String.fromCharCode = Reflect.apply = never('a function');
        Function.prototype.call = Function.prototype.apply = never('call');
        TypeError = DOMException = AbortSignal = never('an error');
        globalThis.asked = [
            navigator.locks.request('held', () => new Promise(() => {})),
            navigator.locks.request('plain\\uD800', (lock) => lock.name),
            navigator.locks.query(),
            navigator.locks.request('held', { signal: controller.signal }, () => {}),
            navigator.locks.request('held', 1, () => {}),
            navigator.locks.request('thenable', () => ({ then: (resolve) => resolve('its own') })),
        ];
        controller.abort();
        globalThis.restore = () => {
            prototype.then = then;
            Object.defineProperty(prototype, 'constructor', { value: constructor });
            for (const key of ['held', 'name', 'mode']) delete Object.prototype[key];
            delete Array.prototype[0];
        };");
    program.step();
    program.run(
        "restore();
        const [, plain, asked, aborted, wrong, thenable] = globalThis.asked;
        follow('plain', plain.then((name) => name.length));
        follow('asked', asked.then(({ held }) => Object.keys(held[0])));
        follow('aborted', aborted.catch(({ name }) => name));
        follow('wrong', wrong.catch(({ message }) => message));
        follow('thenable', thenable.then((value) => value));",
    );
    let expected = "plain: 6, asked: clientId,mode,name, aborted: AbortError, \
                    wrong: the options of request() are not an object, thenable: its own";
    assert_eq!(program.log(), expected);
}

#[test]
fn a_promise_is_rejected_with_the_reason_itself() {
    let program = alone();
    let told = program.told(
        "
        const read = { get(_, key) { note(`read ${String(key)}`); } };
        const reasons = [undefined, null, 0, '', Symbol.iterator, { then: note }, Promise.resolve(1), new Proxy({}, read)];
        const is = async (promise, reason) => note(await promise.then(() => 'fulfilled', (told) => Object.is(told, reason)));
        for (const reason of reasons) {
            is(navigator.locks.request('db', () => { throw reason; }), reason);
            is(navigator.locks.request('db', { get mode() { throw reason; } }, () => {}), reason);
        }",
    );
    assert_eq!(told, ["true"; 16].join(", "));
}
