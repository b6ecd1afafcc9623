//! How hosts run the tasks of agents.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

use common::{TIMEOUT, abort_on_leaks, alone, define_kit, program, until};
use navlock_rquickjs::{
    Locks,
    navlock::{LockManager, UserAgent, blocking},
    register, run,
};
use rquickjs::{AsyncContext, AsyncRuntime, CatchResultExt, Ctx, FromJs, Function};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::LocalSet,
    time::timeout,
};

/// A request that is granted when the holder of the lock releases it.
const WAIT: &str = "follow('waits', navigator.locks.request('db', () => 'granted'));";
/// A lock that is held until it is stolen.
const HOLD: &str = "follow('held', navigator.locks.request('db', () => new Promise(() => {})));";

/// An asynchronous runtime with a context that has `navigator.locks`.
struct Program {
    context: AsyncContext,
    runtime: AsyncRuntime,
}

impl Program {
    async fn new(user_agent: &UserAgent, stays: bool) -> Self {
        let runtime = AsyncRuntime::new().unwrap();
        let context = AsyncContext::full(&runtime).await.unwrap();
        let locks = user_agent.lock_manager("app");
        context
            .with(move |ctx| {
                abort_on_leaks(&ctx);
                let locks = register(&ctx, locks).catch(&ctx).unwrap();
                if stays {
                    locks.spawn_until_end();
                } else {
                    locks.spawn();
                }
                define_kit(&ctx);
            })
            .await;
        Self { context, runtime }
    }

    async fn eval<T: for<'js> FromJs<'js> + 'static>(&self, script: &'static str) -> T {
        let value = self.context.with(move |ctx| ctx.eval::<T, _>(script).map_err(|_| script));
        value.await.unwrap()
    }

    async fn log(&self) -> String {
        self.eval("log.splice(0).join(', ')").await
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let soon = async { timeout(TIMEOUT, future).await.expect("it takes for ever") };
    LocalSet::new().block_on(&executor, soon)
}

/// Waits until this many requests wait in the bucket.
fn until_pending(locks: &LockManager, count: usize) {
    until(|| blocking::block_on(locks.query()).unwrap().pending.len() == count);
}

#[test]
fn after_a_panic_of_the_host_the_tasks_are_done_by_another_future() {
    fn panics() {
        panic!("the host's own");
    }
    block_on(async {
        let program = Program::new(&UserAgent::new(), false).await;
        let define = |ctx: Ctx<'_>| {
            ctx.globals().set("panics", Function::new(ctx.clone(), panics).unwrap()).unwrap();
        };
        program.context.with(define).await;
        let ask = "follow('called', navigator.locks.request('db', () => panics()));
            follow('waits', navigator.locks.request('db', () => 'granted'));";
        program.eval::<()>(ask).await;
        let mut idle = Box::pin(program.runtime.idle());
        let polled = poll_fn(|context| {
            Poll::Ready(catch_unwind(AssertUnwindSafe(|| idle.as_mut().poll(context))))
        });
        assert!(polled.await.is_err());
        drop(idle);
        program.eval::<()>("follow('next', navigator.locks.request('other', () => 1));").await;
        program.runtime.idle().await;
        let mut log: Vec<_> = program.log().await.split(", ").map(str::to_owned).collect();
        log.sort_unstable();
        let told =
            ["called failed: AbortError: the callback was stopped", "next: 1", "waits: granted"];
        assert_eq!(log, told);
    });
}

#[test]
fn a_runtime_without_futures_is_driven_by_a_call_that_blocks() {
    let user_agent = UserAgent::new();
    let other = user_agent.lock_manager("app");
    let guard = other.lock("db").blocking().unwrap();
    let waiting = thread::spawn(move || {
        let program = program(user_agent.lock_manager("app"));
        program.eval::<()>(WAIT);
        run(&program.context).unwrap();
        program.log()
    });
    until_pending(&other, 1);
    drop(guard);
    assert_eq!(waiting.join().unwrap(), "waits: granted");
}

#[test]
fn the_call_that_blocks_does_not_wait_for_locks_that_are_held() {
    let program = alone();
    assert_eq!(program.told(HOLD), "");
    let told = program
        .told("follow('thief', navigator.locks.request('db', { steal: true }, () => 'stolen'));");
    assert_eq!(
        told,
        "held failed: AbortError: the lock was stolen by another request, thief: stolen"
    );
}

#[test]
fn the_call_that_blocks_ends_with_what_a_microtask_throws_and_can_go_on() {
    let program = alone();
    program.eval::<()>("queueMicrotask(() => { throw new Error('mine'); });");
    program.eval::<()>(WAIT);
    assert!(run(&program.context).unwrap_err().is_exception());
    let thrown = program.context.with(|ctx| ctx.catch().into_exception().unwrap().message());
    assert_eq!(thrown.as_deref(), Some("mine"));
    run(&program.context).unwrap();
    assert_eq!(program.log(), "waits: granted");
}

#[test]
fn idle_waits_for_requests_and_not_for_locks_that_are_held() {
    block_on(async {
        let user_agent = UserAgent::new();
        let guard = user_agent.lock_manager("app").lock("db").await.unwrap();
        let program = Program::new(&user_agent, false).await;
        program.eval::<()>(WAIT).await;
        {
            let mut idle = pin!(program.runtime.idle());
            let is_waiting =
                std::future::poll_fn(|context| Poll::Ready(idle.as_mut().poll(context)));
            assert!(is_waiting.await.is_pending());
            // Another thread releases the lock, as a holder elsewhere does.
            thread::spawn(move || drop(guard));
            idle.await;
        }
        assert_eq!(program.log().await, "waits: granted");
        program.eval::<()>(HOLD).await;
        program.runtime.idle().await;
        assert_eq!(program.log().await, "");
    });
}

#[test]
fn idle_returns_when_the_agent_that_waits_is_ended_or_its_context_freed() {
    block_on(async {
        let user_agent = UserAgent::new();
        let guard = user_agent.lock_manager("app").lock("db").await.unwrap();
        for stays in [false, true] {
            let program = Program::new(&user_agent, stays).await;
            program.eval::<()>(WAIT).await;
            program.context.with(|ctx| Locks::of(&ctx).unwrap().end()).await;
            program.runtime.idle().await;
            let Program { context, runtime } = Program::new(&user_agent, stays).await;
            drop(context);
            runtime.run_gc().await;
            runtime.idle().await;
        }
        drop(guard);
    });
}

#[test]
fn a_waiter_is_polled_only_when_something_has_happened() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    block_on(async {
        let user_agent = UserAgent::new();
        let other = user_agent.lock_manager("app");
        let guard = other.lock("db").await.unwrap();
        let program = Program::new(&user_agent, false).await;
        program.eval::<()>(WAIT).await;
        let wakes = Arc::new(Count(AtomicUsize::new(0)));
        let woken = || wakes.0.swap(0, Ordering::SeqCst) > 0;
        let counting = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&counting);
        let mut idle = pin!(program.runtime.idle());
        for _ in 0..5 {
            assert!(idle.as_mut().poll(&mut context).is_pending());
            assert!(!woken(), "it asks to be polled again, and nothing has happened");
        }
        drop(guard);
        assert!(woken());
        while idle.as_mut().poll(&mut context).is_pending() {
            assert!(woken());
        }
    });
}

/// Defines `tell(text)`, which sends the text to the test.
async fn define_tell(program: &Program) -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    let tell = move |text| sender.send(text).unwrap();
    let define = |ctx: Ctx<'_>| {
        ctx.globals().set("tell", Function::new(ctx.clone(), tell).unwrap()).unwrap();
    };
    program.context.with(define).await;
    receiver
}

#[test]
fn a_runtime_that_is_driven_beside_hears_of_grants_and_of_thieves() {
    block_on(async {
        let user_agent = UserAgent::new();
        let other = user_agent.lock_manager("app");
        let guard = other.lock("db").await.unwrap();
        let program = Program::new(&user_agent, true).await;
        let mut told = define_tell(&program).await;
        let driven = tokio::task::spawn_local(program.runtime.drive());
        let script = "navigator.locks.request('db', () => { tell('granted'); return new Promise(() => {}); })
            .catch(({ name }) => tell(name));";
        program.eval::<()>(script).await;
        drop(guard);
        assert_eq!(told.recv().await.unwrap(), "granted");
        // The script waits for nothing, and nothing but `drive` uses the runtime.
        let thief = thread::spawn(move || other.lock("db").steal().blocking().unwrap());
        assert_eq!(told.recv().await.unwrap(), "AbortError");
        drop(thief.join().unwrap());
        driven.abort();
    });
}

#[test]
fn a_future_that_stays_until_the_agent_ends_hears_of_an_end_that_others_bring_about() {
    let ends: [fn(&UserAgent, &LockManager); 2] =
        [|_, locks| locks.terminate(), |user_agent, _| user_agent.close()];
    for end in ends {
        block_on(async {
            let user_agent = UserAgent::new();
            let program = Program::new(&user_agent, true).await;
            program.eval::<()>(HOLD).await;
            let locks = program.context.with(|ctx| Locks::of(&ctx).unwrap().lock_manager()).await;
            let mut idle = pin!(program.runtime.idle());
            for _ in 0..100 {
                let polled = poll_fn(|context| Poll::Ready(idle.as_mut().poll(context))).await;
                assert!(polled.is_pending());
            }
            thread::spawn(move || end(&user_agent, &locks)).join().unwrap();
            idle.await;
            let told = program.log().await;
            assert!(told.contains("held failed: AbortError"), "{told}");
        });
    }
}

#[test]
fn microtasks_run_between_the_callbacks_of_two_grants() {
    const SCRIPT: &str = "
        const begin = (name) => async () => { note(name); await null; note(`${name} goes on`); };
        navigator.locks.request('db', { mode: 'shared' }, begin('first'));
        navigator.locks.request('db', { mode: 'shared' }, begin('second'));
        Promise.resolve().then(() => note('microtask'));
        note('script');";
    const ORDER: &str = "script, microtask, first, first goes on, second, second goes on";
    let program = alone();
    assert_eq!(program.told(SCRIPT), ORDER);
    block_on(async {
        let program = Program::new(&UserAgent::new(), false).await;
        program.eval::<()>(SCRIPT).await;
        program.runtime.idle().await;
        assert_eq!(program.log().await, ORDER);
    });
}

#[test]
fn requests_without_end_leave_others_of_the_runtime_their_turn() {
    block_on(async {
        let program = Program::new(&UserAgent::new(), false).await;
        let script = "globalThis.stop = false;
            (async () => { while (!stop) await navigator.locks.request('db', () => {}); note('stopped'); })();";
        program.eval::<()>(script).await;
        program
            .context
            .with(|ctx| {
                let own = ctx.clone();
                ctx.spawn(async move {
                    // The future yields once, as a timer would.
                    tokio::task::yield_now().await;
                    own.globals().set("stop", true).unwrap();
                });
            })
            .await;
        program.runtime.idle().await;
        assert_eq!(program.log().await, "stopped");
    });
}

#[test]
fn runtimes_of_a_process_exclude_each_other_unless_they_are_private() {
    const ASK: &str = "follow('free', navigator.locks.request('db', { ifAvailable: true }, (lock) => lock !== null));";
    let bucket = "runtimes_of_a_process_exclude_each_other";
    let first = program(navlock_rquickjs::navlock::in_process().lock_manager(bucket));
    let second = program(navlock_rquickjs::navlock::in_process().lock_manager(bucket));
    let private = program(UserAgent::new().lock_manager(bucket));
    assert_eq!(first.told(HOLD), "");
    assert_eq!(second.told(ASK), "free: false");
    assert_eq!(private.told(ASK), "free: true");
    drop(first);
    assert_eq!(second.told(ASK), "free: true");
}
