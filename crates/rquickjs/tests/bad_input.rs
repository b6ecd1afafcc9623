//! Scripts that throw where nobody expects it, and limits that are reached: nothing is held, nothing
//! panics, nothing leaks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::{
    cell::Cell,
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use common::{Program, alone, context, log, program, step};
use navlock_rquickjs::{
    Locks,
    navlock::{LockManager, UserAgent},
    run,
};
use rquickjs::{
    Context, Ctx, Function, Object, Persistent, Promise, Runtime, promise::PromiseState,
};

fn is_free(user_agent: &UserAgent) -> bool {
    let other: LockManager = user_agent.lock_manager("app");
    other.lock("db").if_available().blocking().unwrap().is_some()
}

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
fn what_getters_and_proxies_throw_is_a_rejection() {
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
    // And when the context that has made it is gone, as far as its host is concerned.
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
    // While a name is converted, and so through a function of the interface.
    let convert = || program.eval::<()>("navigator.locks.request({ toString: panics }, () => {});");
    assert_eq!(message(&convert), "the host's own");
    // In a callback, and in what that returned.
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
        // One of a job goes on where the next call of rquickjs's fails.
        let step = || {
            program.step();
            program.context.with(|ctx| assert!(ctx.eval::<(), _>("throw 'anything'").is_err()));
        };
        assert_eq!(message(&step), "the host's own", "{callback}");
        // Nothing of it is left for the next one.
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
fn what_scripts_make_of_the_language_changes_nothing() {
    let program = alone();
    // All at once, in a context of its own.
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

/// A program whose scripts are stopped while the cell is true.
fn interruptible() -> (UserAgent, Program, Rc<Cell<bool>>) {
    let user_agent = UserAgent::new();
    let program = program(user_agent.lock_manager("app"));
    let is_stopped = Rc::new(Cell::new(false));
    let asked = Rc::clone(&is_stopped);
    program.runtime.set_interrupt_handler(Some(Box::new(move || asked.get())));
    (user_agent, program, is_stopped)
}

#[test]
fn a_callback_that_is_interrupted_releases_its_lock() {
    for callback in ["() => { for (;;); }", "async () => { for (;;); }"] {
        let (user_agent, program, is_stopped) = interruptible();
        program.eval::<()>(&format!(
            "
            follow('first', navigator.locks.request('db', {callback}));
            follow('second', navigator.locks.request('db', () => 'granted'));"
        ));
        is_stopped.set(true);
        program.context.with(|ctx| {
            let error = Locks::of(&ctx).unwrap().run_task().unwrap_err();
            assert!(error.is_exception());
            assert!(ctx.catch().is_uncatchable_error());
        });
        is_stopped.set(false);
        run(&program.context).unwrap();
        let told = program.log();
        assert_eq!(told, "first failed: AbortError: the callback was stopped, second: granted");
        assert!(is_free(&user_agent));
    }
}

#[test]
fn a_callback_that_is_interrupted_after_it_has_waited_holds_until_its_agent_ends() {
    let (user_agent, program, is_stopped) = interruptible();
    program.eval::<()>(
        "
        follow('first', navigator.locks.request('db', async () => { await null; for (;;); }));",
    );
    is_stopped.set(true);
    program.context.with(|ctx| {
        assert!(Locks::of(&ctx).unwrap().run_task().unwrap());
        while ctx.execute_pending_job() {}
    });
    is_stopped.set(false);
    run(&program.context).unwrap();
    // QuickJS has dropped the function where it was, and settles its promise never.
    assert_eq!(program.log(), "");
    assert!(!is_free(&user_agent));
    program.context.with(|ctx| Locks::of(&ctx).unwrap().end());
    assert!(is_free(&user_agent));
}

#[test]
fn a_job_that_is_interrupted_before_it_has_begun_releases_the_lock() {
    for returned in
        ["7", "Promise.resolve(7)", "Promise.reject(7)", "{ then(resolve) { resolve(7); } }"]
    {
        let (user_agent, program, is_stopped) = interruptible();
        let mut stopped = 0;
        // QuickJS asks whether to go on at each ten thousandth turn of a loop or call. So some of these are asked
        // about each call that comes after the callback.
        for turns in 9_700..=10_000 {
            is_stopped.set(true);
            program.context.with(|ctx| {
                ctx.eval::<(), _>("for (;;);").unwrap_err();
                assert!(ctx.catch().is_uncatchable_error());
            });
            is_stopped.set(false);
            program.eval::<()>(&format!(
                "
                globalThis.asked = navigator.locks.request('db', () => {{
                    let left = {turns};
                    do; while (--left);
                    return {returned};
                }});
                void asked.catch(() => {{}});"
            ));
            is_stopped.set(true);
            let is_called = program.context.with(|ctx| {
                let is_called = Locks::of(&ctx).unwrap().run_task().is_ok();
                drop(ctx.catch());
                is_called
            });
            while program.runtime.is_job_pending() {
                if let Err(job) = program.runtime.execute_pending_job() {
                    job.0.with(|ctx| drop(ctx.catch()));
                    stopped += u32::from(is_called);
                }
            }
            is_stopped.set(false);
            assert!(is_free(&user_agent), "{returned}, after {turns} turns");
            run(&program.context).unwrap();
            let asked = program.context.with(|ctx| {
                let asked: Promise<'_> = ctx.globals().get("asked").unwrap();
                asked.state()
            });
            assert!(asked != PromiseState::Pending, "{returned}, after {turns} turns");
        }
        assert!(stopped > 0, "{returned}");
    }
}

#[test]
fn a_then_that_is_interrupted_ends_no_request_but_its_own() {
    let (_, program, is_stopped) = interruptible();
    let stops = Rc::clone(&is_stopped);
    program.context.with(|ctx| {
        let run_jobs = |ctx: Ctx<'_>| while ctx.execute_pending_job() {};
        let run_task = |ctx: Ctx<'_>| Locks::of(&ctx).unwrap().run_task();
        let globals = ctx.globals();
        globals.set("runJobs", Function::new(ctx.clone(), run_jobs)).unwrap();
        globals.set("runTask", Function::new(ctx.clone(), run_task)).unwrap();
        globals.set("stop", Function::new(ctx.clone(), move || stops.set(true))).unwrap();
    });
    program.eval::<()>(
        "
        follow('first', navigator.locks.request('a', () => ({
            then(resolve) {
                resolve(1);
                runJobs();
                // The first request is over, and this one is called back before the one that ended it returns.
                follow('second', navigator.locks.request('b', () => 7));
                runTask();
                stop();
                for (;;);
            },
        })));",
    );
    program.context.with(|ctx| {
        assert!(Locks::of(&ctx).unwrap().run_task().unwrap());
        while !is_stopped.get() && ctx.execute_pending_job() {}
        drop(ctx.catch());
    });
    assert!(is_stopped.replace(false));
    run(&program.context).unwrap();
    assert_eq!(program.log(), "first: 1, second: 7");
}

#[test]
fn a_conversion_that_is_interrupted_asks_for_nothing() {
    for arguments in [
        "{ toString() { for (;;); } }, () => {}",
        "Object.assign(new Error('db'), { toString() { for (;;); } }), () => {}",
        "'db', { get mode() { for (;;); } }, () => {}",
        "'db', { get signal() { for (;;); } }, () => {}",
    ] {
        let (user_agent, program, is_stopped) = interruptible();
        is_stopped.set(true);
        program.context.with(|ctx| {
            let script = format!(
                "try {{ navigator.locks.request({arguments}); }} catch {{ note('caught'); }}"
            );
            assert!(ctx.eval::<(), _>(script).unwrap_err().is_exception());
            assert!(ctx.catch().is_uncatchable_error());
        });
        is_stopped.set(false);
        run(&program.context).unwrap();
        assert_eq!(program.log(), "");
        assert!(is_free(&user_agent));
    }
}

#[test]
fn what_a_callback_returned_that_is_interrupted_holds_nothing() {
    for returned in [
        "({ get then() { for (;;); } })",
        "({ then() { for (;;); } })",
        "({ then(resolve) { resolve(new Promise(() => {})); for (;;); } })",
        "Object.defineProperty(Promise.resolve(), 'constructor', { get() { for (;;); } })",
        "gets({ get then() { for (;;); } })",
        "gets({ then() { for (;;); } })",
    ] {
        let (user_agent, program, is_stopped) = interruptible();
        // What adopts is used again, and here for what is stopped.
        let plain = |name| {
            let told =
                program.told(&format!("follow('{name}', navigator.locks.request('db', () => 1));"));
            assert_eq!(told, format!("{name}: 1"), "{returned}");
        };
        plain("before");
        program.eval::<()>(&format!(
            "
            // A promise of an object that gets its `then` later.
            const gets = (properties) => {{
                const object = {{}};
                const promise = Promise.resolve(object);
                Object.defineProperties(object, Object.getOwnPropertyDescriptors(properties));
                return promise;
            }};
            follow('first', navigator.locks.request('db', () => {returned}));"
        ));
        is_stopped.set(true);
        let is_told = program.context.with(|ctx| Locks::of(&ctx).unwrap().run_task().is_err());
        let mut jobs = iter::from_fn(|| match program.runtime.execute_pending_job() {
            Ok(has_run) => has_run.then_some(false),
            Err(_) => Some(true),
        });
        assert!(is_told || jobs.any(|is_told| is_told), "{returned}");
        program.context.with(|ctx| assert!(ctx.catch().is_uncatchable_error()));
        is_stopped.set(false);
        assert!(is_free(&user_agent), "{returned}");
        run(&program.context).unwrap();
        assert_eq!(
            program.log(),
            "first failed: AbortError: the callback was stopped",
            "{returned}"
        );
        plain("after");
    }
}

const SCRIPT: &str = "globalThis.go = () => {
    const ignore = () => {};
    for (let i = 0; i < 3; i++) {
        const controller = new AbortController();
        const { signal } = controller;
        navigator.locks.request('db', { signal }, async (lock) => { await lock.name; throw 1; }).catch(ignore);
        navigator.locks.request('db', { signal }, ignore).catch(ignore);
        navigator.locks.request('db', 1, ignore).catch(ignore);
        navigator.locks.query().catch(ignore);
        controller.abort();
    }
};";

/// Calls `go`, does all that follows, and says whether QuickJS ever failed.
fn exhaust(context: &Context, limit: usize) -> bool {
    context.runtime().set_memory_limit(limit);
    let mut has_failed = context.with(|ctx| {
        let go: Function<'_> = ctx.globals().get("go").unwrap();
        fails(&ctx, &go.call::<_, ()>(()))
    });
    loop {
        let (go_on, failed) = context.with(|ctx| {
            while ctx.execute_pending_job() {}
            match Locks::of(&ctx).unwrap().run_task() {
                Ok(go_on) => (go_on, false),
                error => (true, fails(&ctx, &error)),
            }
        });
        has_failed |= failed;
        if !go_on {
            break;
        }
    }
    context.runtime().set_memory_limit(0);
    has_failed
}

fn fails<T>(ctx: &Ctx<'_>, result: &rquickjs::Result<T>) -> bool {
    if result.is_err() {
        drop(ctx.catch());
    }
    result.is_err()
}

#[test]
fn a_limit_of_memory_that_is_reached_anywhere_panics_nowhere_and_leaks_nothing() {
    let used =
        |program: &Program| usize::try_from(program.runtime.memory_usage().malloc_size).unwrap();
    let mut failures = 0;
    let mut room = 0;
    loop {
        let user_agent = UserAgent::new();
        let program = program(user_agent.lock_manager("app"));
        // Read before, as QuickJS itself loses memory where it runs out of it while it reads a script.
        program.eval::<()>(SCRIPT);
        let has_failed = exhaust(&program.context, used(&program) + room);
        failures += usize::from(has_failed);
        if !has_failed && room > 64 * 1024 {
            break;
        }
        room += 331;
        // What it could not do, the end of the runtime does.
        drop(program);
        assert!(is_free(&user_agent));
    }
    assert!(failures > 10);
}
