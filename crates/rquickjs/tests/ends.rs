//! The ends of agents: everything that an agent has becomes free, and QuickJS finds nothing left.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    rc::Rc,
    task::Poll,
};

use common::{Program, abort_on_leaks, alone, context, define_kit, eval, log, program, step};
use navlock_rquickjs::{
    Locks,
    navlock::{Error, UserAgent, blocking},
    register, run,
};
use rquickjs::{AsyncContext, AsyncRuntime, CatchResultExt, Context, Ctx, Function, Runtime};

/// Everything that an agent can have at once, and `follow` notes how each promise is settled.
const EVERYTHING: &str = "
    globalThis.controller = new AbortController();
    follow('held', navigator.locks.request('held', () => new Promise(() => {})));
    follow('waits', navigator.locks.request('held', () => {}));
    follow('waits with a signal', navigator.locks.request('held', { signal: controller.signal }, () => {}));
    follow('due', navigator.locks.request('due', () => {}));
    follow('is asked', navigator.locks.query());
    controller.signal.addEventListener('abort', () => note('aborted'));";

fn is_free(user_agent: &UserAgent, name: &str) -> bool {
    let other = user_agent.lock_manager("app");
    other.lock(name).if_available().blocking().unwrap().is_some()
}

#[test]
fn a_runtime_that_ends_leaves_nothing_of_its_agents() {
    let user_agent = UserAgent::new();
    let program = program(user_agent.lock_manager("app"));
    program.eval::<()>(EVERYTHING);
    program.step();
    // After the step, these requests leave tasks again that nobody has run.
    program.eval::<()>(
        "follow('due again', navigator.locks.request('due', () => {})); navigator.locks.query();",
    );
    assert!(!is_free(&user_agent, "held"));
    let Program { context, runtime, .. } = program;
    drop(context);
    drop(runtime);
    assert!(is_free(&user_agent, "held"));
}

#[test]
fn a_context_ends_its_agents_when_it_is_freed_and_no_other() {
    let user_agent = UserAgent::new();
    let runtime = Runtime::new().unwrap();
    let first = context(&runtime, user_agent.lock_manager("app"));
    let second = context(&runtime, user_agent.lock_manager("app"));
    for context in [&first, &second] {
        let script = "navigator.locks.request('held', () => { note('granted'); return new Promise(() => {}); });";
        eval::<()>(context, script);
        step(context);
    }
    assert_eq!((log(&first), log(&second)), ("granted".to_owned(), String::new()));
    drop(first);
    step(&second);
    assert_eq!(log(&second), "", "QuickJS has not collected the first one yet");
    runtime.run_gc();
    step(&second);
    assert_eq!(log(&second), "granted");
    assert!(!is_free(&user_agent, "held"));
    drop(second);
    runtime.run_gc();
    assert!(is_free(&user_agent, "held"));
}

#[test]
fn no_agent_of_a_context_that_is_freed_is_granted_what_another_of_it_held() {
    let user_agent = UserAgent::new();
    let program = program(user_agent.lock_manager("app"));
    program.context.with(|ctx| {
        let locks = Locks::open(&ctx, user_agent.lock_manager("app")).unwrap();
        ctx.globals().set("other", locks.object()).unwrap();
    });
    let other = user_agent.lock_manager("app");
    let first = other.lock("db").blocking().unwrap().fencing_token().get();
    program.eval::<()>(
        "navigator.locks.request('db', () => new Promise(() => {})); other.request('db', () => {});",
    );
    drop(program);
    // Between the two locks of `other` lies one grant, that of the lock that was held.
    assert_eq!(other.lock("db").blocking().unwrap().fencing_token().get(), first + 2);
}

#[test]
fn a_context_in_the_place_of_another_has_an_agent_of_its_own() {
    let user_agent = UserAgent::new();
    let runtime = Runtime::new().unwrap();
    for _ in 0..20 {
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            abort_on_leaks(&ctx);
            assert!(Locks::of(&ctx).is_none());
            let _ = register(&ctx, user_agent.lock_manager("app")).unwrap();
            define_kit(&ctx);
        });
        eval::<()>(&context, "follow('held', navigator.locks.request('held', () => 'done'));");
        run(&context).unwrap();
        assert_eq!(log(&context), "held: done");
        drop(context);
        runtime.run_gc();
    }
}

#[test]
fn an_agent_that_is_ended_has_nothing_and_asks_in_vain() {
    let user_agent = UserAgent::new();
    let program = program(user_agent.lock_manager("app"));
    program.eval::<()>(EVERYTHING);
    program.step();
    assert_eq!(program.log(), "due: undefined, is asked: [object Object]");
    program.context.with(|ctx| {
        let locks = Locks::of(&ctx).unwrap();
        assert!(locks.is_waiting() && !locks.has_ended());
        locks.end();
        assert!(!locks.is_waiting() && locks.has_ended());
    });
    assert!(is_free(&user_agent, "held"));
    let told = program
        .told("controller.abort(); follow('late', navigator.locks.request('late', () => {}));");
    assert_eq!(told, "aborted, late failed: InvalidStateError: the agent has been terminated");
}

#[test]
fn an_agent_may_end_in_its_own_callback() {
    let program = alone();
    program.context.with(|ctx| {
        let end = |ctx: Ctx<'_>| Locks::of(&ctx).unwrap().end();
        ctx.globals().set("end", Function::new(ctx.clone(), end).unwrap()).unwrap();
    });
    let told = program.told("
        follow('first', navigator.locks.request('a', () => { note('begins'); end(); note('ended'); return 1; }));
        follow('second', navigator.locks.request('a', () => {}));");
    assert_eq!(told, "begins, ended");
}

#[test]
fn a_context_may_be_dropped_in_a_callback() {
    let user_agent = UserAgent::new();
    let runtime = Runtime::new().unwrap();
    let dropped = context(&runtime, user_agent.lock_manager("app"));
    let other = context(&runtime, user_agent.lock_manager("app"));
    // rquickjs keeps the first context that gets a function of Rust. So this gives one to `other`,
    // because the test drops `dropped`.
    other.with(|ctx| drop(Function::new(ctx, || ()).unwrap()));
    let handle = Rc::new(RefCell::new(None));
    let own = Rc::clone(&handle);
    dropped.with(|ctx| {
        let drop_it = move |ctx: Ctx<'_>| {
            own.borrow_mut().take();
            ctx.run_gc();
        };
        ctx.globals().set("dropIt", Function::new(ctx.clone(), drop_it).unwrap()).unwrap();
    });
    eval::<()>(
        &dropped,
        "navigator.locks.request('held', () => { dropIt(); return new Promise(() => {}); });
        navigator.locks.request('held', () => {});",
    );
    let last = dropped.clone();
    *handle.borrow_mut() = Some(dropped);
    last.with(|ctx| assert!(Locks::of(&ctx).unwrap().run_task().unwrap()));
    assert!(handle.borrow().is_none());
    drop(last);
    // The jobs keep the context too.
    while runtime.execute_pending_job().unwrap() {}
    runtime.run_gc();
    assert!(is_free(&user_agent, "held"));
}

#[test]
fn deletions_by_scripts_end_nothing() {
    let user_agent = UserAgent::new();
    let guard = user_agent.lock_manager("app").lock("db").blocking().unwrap();
    let program = program(user_agent.lock_manager("app"));
    program.eval::<()>(
        "follow('waits', navigator.locks.request('db', () => 'granted'));
        for (const name of ['navigator', 'Navigator', 'LockManager', 'Lock']) delete globalThis[name];",
    );
    // Only the request is left, and no script has a reference to it.
    program.runtime.run_gc();
    drop(guard);
    run(&program.context).unwrap();
    assert_eq!(program.log(), "waits: granted");
}

#[test]
fn a_lock_manager_is_not_registered_twice() {
    let program = alone();
    program.context.with(|ctx| {
        let error = register(&ctx, UserAgent::new().lock_manager("app")).unwrap_err();
        assert!(error.is_exception());
        let error: rquickjs::Exception<'_> = ctx.catch().get().unwrap();
        assert_eq!(
            error.message().unwrap(),
            "navigator.locks is registered in this context already"
        );
    });
    assert_eq!(program.told("follow('a', navigator.locks.request('a', () => 1))"), "a: 1");
}

#[test]
fn a_second_lock_manager_of_a_context_is_another_agent() {
    let user_agent = UserAgent::new();
    let program = program(user_agent.lock_manager("app"));
    program.context.with(|ctx| {
        let locks = Locks::open(&ctx, user_agent.lock_manager("other")).unwrap();
        ctx.globals().set("other", locks.object()).unwrap();
    });
    program.eval::<()>("
        navigator.locks.request('a', () => new Promise(() => {}));
        follow('other', other.request('a', (lock) => { note(lock); return other instanceof LockManager; }));");
    program.step();
    assert_eq!(program.log(), "");
    program.context.with(|ctx| {
        let object = ctx.globals().get("other").unwrap();
        let locks = Locks::of_object(&object).unwrap();
        assert!(locks.run_task().unwrap());
        while ctx.execute_pending_job() {}
    });
    assert_eq!(program.log(), "[object Lock], other: true");
}

#[test]
fn scripts_that_still_have_the_object_of_an_agent_that_has_ended_are_refused() {
    let user_agent = UserAgent::new();
    let program = program(user_agent.lock_manager("app"));
    program.context.with(|ctx| {
        let first = Locks::open(&ctx, user_agent.lock_manager("short")).unwrap();
        ctx.globals().set("other", first.object()).unwrap();
        first.end();
        for _ in 0..100 {
            let locks = Locks::open(&ctx, user_agent.lock_manager("short")).unwrap();
            assert!(Locks::of_object(&locks.object()).is_some());
            locks.end();
        }
        assert_eq!(Locks::all(&ctx).count(), 1);
        // The home has removed the ended agent. The handle says that the agent has ended.
        assert!(Locks::of_object(&first.object()).is_none());
        assert!(first.has_ended() && !first.is_waiting() && !first.run_task().unwrap());
    });
    let told = program.told(
        "follow('request', other.request('db', () => {}));
        follow('nothing', other.request('db'));
        follow('query', other.query());
        follow('own', navigator.locks.request('db', () => 'works'));",
    );
    let ended = "failed: InvalidStateError: the agent has been terminated";
    let nothing =
        "failed: TypeError: request() needs a name and a callback; 1 of 2 arguments given";
    assert_eq!(told, format!("request {ended}, nothing {nothing}, query {ended}, own: works"));
}

#[test]
fn a_registration_that_runs_out_of_memory_can_be_made_again() {
    let mut failed = 0;
    // The steps are large while nothing of the adapter exists yet.
    for step in 0.. {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        let used = usize::try_from(runtime.memory_usage().malloc_size).unwrap();
        runtime.set_memory_limit(used + 3000 * step);
        let user_agent = UserAgent::new();
        let registered = context.with(|ctx| register(&ctx, user_agent.lock_manager("app")).is_ok());
        runtime.set_memory_limit(0);
        if registered {
            break;
        }
        failed += 1;
        context.with(|ctx| {
            drop(ctx.catch());
            let _ = register(&ctx, user_agent.lock_manager("app")).catch(&ctx).unwrap();
            assert_eq!(Locks::all(&ctx).count(), 1);
            define_kit(&ctx);
        });
        eval::<()>(&context, "follow('own', navigator.locks.request('db', ({ name }) => name));");
        run(&context).unwrap();
        assert_eq!(log(&context), "own: db", "after {failed} steps");
    }
    assert!(failed > 10, "it never ran out of memory");
}

#[test]
fn a_lock_manager_that_the_host_ends_rejects_what_waits_for_it() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let program = program(locks.clone());
    program.eval::<()>(
        "
        follow('held', navigator.locks.request('a', () => new Promise(() => {})));
        follow('waits', navigator.locks.request('a', () => {}));",
    );
    program.step();
    // The end does not come through the context. It comes as when a broker is gone.
    locks.terminate();
    run(&program.context).unwrap();
    let told = program.log();
    assert!(told.contains("waits failed: InvalidStateError"), "{told}");
    assert_eq!(locks.lock("a").blocking().unwrap_err(), Error::Terminated);
}

#[test]
fn rquickjs_keeps_the_first_context_with_a_function_of_rust_until_the_runtime_ends() {
    let user_agent = UserAgent::new();
    let runtime = Runtime::new().unwrap();
    let first = Context::full(&runtime).unwrap();
    first.with(|ctx| drop(Function::new(ctx, || ()).unwrap()));
    for ends in [false, true] {
        let context = if ends { Context::full(&runtime).unwrap() } else { first.clone() };
        context.with(|ctx| {
            abort_on_leaks(&ctx);
            let _ = register(&ctx, user_agent.lock_manager("app")).unwrap();
        });
        let name = if ends { "second" } else { "first" };
        let hold = format!("navigator.locks.request('{name}', () => new Promise(() => {{}}));");
        eval::<()>(&context, &hold);
        step(&context);
    }
    runtime.run_gc();
    assert!(is_free(&user_agent, "second"), "it was dropped and is freed");
    drop(first);
    runtime.run_gc();
    assert!(!is_free(&user_agent, "first"), "it was dropped, and rquickjs keeps it");
    drop(runtime);
    assert!(is_free(&user_agent, "first"));
}

#[test]
fn a_runtime_with_futures_that_ends_leaves_nothing_of_its_agents() {
    let user_agent = UserAgent::new();
    let agent = user_agent.lock_manager("app");
    blocking::block_on(async {
        let runtime = AsyncRuntime::new().unwrap();
        let context = AsyncContext::full(&runtime).await.unwrap();
        let begin = move |ctx: Ctx<'_>| {
            abort_on_leaks(&ctx);
            register(&ctx, agent).unwrap().spawn();
            define_kit(&ctx);
            ctx.eval::<(), _>(EVERYTHING).unwrap();
        };
        context.with(begin).await;
        let mut idle = Box::pin(runtime.idle());
        let is_waiting = poll_fn(|context| Poll::Ready(idle.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await);
        drop(idle);
        assert!(!is_free(&user_agent, "held"));
    });
    assert!(is_free(&user_agent, "held"));
}

#[test]
fn garbage_is_collected_wherever_scripts_run_and_nothing_that_is_used() {
    let program = alone();
    program.context.with(|ctx| {
        // This is not `Function::new` of a closure with captured values, because QuickJS does not
        // see these values.
        let collect = Function::new(ctx.clone(), |ctx: Ctx<'_>| ctx.run_gc()).unwrap();
        ctx.globals().set("collect", collect).unwrap();
    });
    let told = program.told(
        "const collected = (value) => { collect(); return value; };
        const controllers = [1, 2].map(() => new AbortController());
        controllers[0].signal.addEventListener('abort', collect);
        const options = (signal) => ({ get mode() { return collected('shared'); }, get signal() { return collected(signal); } });
        const name = { toString: () => collected('db') };
        follow('returns', navigator.locks.request(name, options(undefined), () => collected('first')));
        follow('then', navigator.locks.request(name, () => ({ then(resolve) { collect(); resolve(collected('second')); } })));
        follow('aborted', navigator.locks.request(name, options(controllers[0].signal), collect));
        follow('throws', navigator.locks.request(name, options(controllers[1].signal), async () => { collect(); await null; throw collected('third'); }));
        follow('asked', navigator.locks.query().then(({ held }) => collected(held.length)));
        follow('refused', navigator.locks.request(name, options({}), collect).catch(() => collected('fourth')));
        controllers[0].abort('reason');
        collect();",
    );
    let mut told: Vec<_> = told.split(", ").collect();
    told.sort_unstable();
    let expected = [
        "aborted failed: reason",
        "asked: 1",
        "refused: fourth",
        "returns: first",
        "then: second",
        "throws failed: third",
    ];
    assert_eq!(told, expected);
    program.runtime.run_gc();
}
