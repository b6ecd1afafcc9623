//! Scripts that an interrupt or a limit of memory stops: nothing stays held, nothing panics, and
//! nothing leaks.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::{cell::Cell, iter, rc::Rc};

use common::{Program, program};
use navlock_rquickjs::{
    Locks,
    navlock::{LockManager, UserAgent},
    run,
};
use rquickjs::{Context, Ctx, Function, Promise, promise::PromiseState};

fn is_free(user_agent: &UserAgent) -> bool {
    let other: LockManager = user_agent.lock_manager("app");
    other.lock("db").if_available().blocking().unwrap().is_some()
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
    // QuickJS has dropped the function at its `await`, and never settles the function's promise.
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
        // QuickJS asks whether to go on at every ten-thousandth turn of a loop or call. So for each
        // call after the callback, one of these numbers of turns makes QuickJS ask at that call.
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
                // The first request is over, and this one is called back before the one that ended
                // it returns.
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
fn a_returned_thenable_that_is_interrupted_holds_nothing() {
    for returned in [
        "({ get then() { for (;;); } })",
        "({ then() { for (;;); } })",
        "({ then(resolve) { resolve(new Promise(() => {})); for (;;); } })",
        "Object.defineProperty(Promise.resolve(), 'constructor', { get() { for (;;); } })",
        "gets({ get then() { for (;;); } })",
        "gets({ then() { for (;;); } })",
    ] {
        let (user_agent, program, is_stopped) = interruptible();
        // The function that adopts is kept and used again: here the stopped callback uses it.
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

/// Calls `go`, runs everything that follows from it, and returns whether QuickJS ever failed.
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
        // The script is read before the limit, because QuickJS leaks memory if it runs out of
        // memory while it reads a script.
        program.eval::<()>(SCRIPT);
        let has_failed = exhaust(&program.context, used(&program) + room);
        failures += usize::from(has_failed);
        if !has_failed && room > 64 * 1024 {
            break;
        }
        room += 331;
        // The end of the runtime releases what the scripts could not.
        drop(program);
        assert!(is_free(&user_agent));
    }
    assert!(failures > 10);
}
