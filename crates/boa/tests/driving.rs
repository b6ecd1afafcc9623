//! Who runs the tasks: the context's own jobs, in all ways in which Boa runs jobs, or the embedder.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod kit;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context as TaskContext, Poll, Waker},
    thread,
};

use boa_engine::{
    Context, JsNativeError, JsResult, JsValue, NativeFunction, Source,
    job::{GenericJob, Job, JobExecutor, NativeAsyncJob, PromiseJob, SimpleJobExecutor},
    js_string,
};
use kit::Page;
use navlock_boa::{
    Locks, LocksExtension,
    navlock::{LockManager, UserAgent, blocking::block_on},
};

thread_local! {
    /// How many of the thread's contexts are within a lock, and how often one was.
    static INSIDE: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

const TRANSFER: &str = "
    for (let at = 0; at < 20; at++) {
        navigator.locks.request('db', async () => {
            enter();
            for (let turn = 0; turn < 10; turn++) await null;
            leave();
        });
    }";

/// A context with an executor that can be awaited, and the functions `enter` and `leave`.
fn page(locks: LockManager) -> (Page, Rc<SimpleJobExecutor>) {
    let executor = Rc::new(SimpleJobExecutor::new());
    let context = Context::builder().job_executor(Rc::clone(&executor)).build().unwrap();
    let mut page = Page::with(LocksExtension::new(locks), context);
    let enter = NativeFunction::from_fn_ptr(|_, _, _| {
        let (inside, entered) = INSIDE.get();
        assert_eq!(inside, 0, "two contexts are within the lock");
        INSIDE.set((1, entered + 1));
        Ok(JsValue::undefined())
    });
    let leave = NativeFunction::from_fn_ptr(|_, _, _| {
        INSIDE.set((0, INSIDE.get().1));
        Ok(JsValue::undefined())
    });
    page.context.register_global_builtin_callable(js_string!("enter"), 0, enter).unwrap();
    page.context.register_global_builtin_callable(js_string!("leave"), 0, leave).unwrap();
    (page, executor)
}

async fn run(page: &mut Page, executor: Rc<SimpleJobExecutor>) {
    page.context.eval(Source::from_bytes(TRANSFER)).unwrap();
    executor.run_jobs_async(&RefCell::new(&mut page.context)).await.unwrap();
}

#[test]
fn contexts_of_a_thread_exclude_each_other_on_any_executor() {
    let user_agent = UserAgent::new();
    let [mut one, mut two, mut three] = [(); 3].map(|()| page(user_agent.lock_manager("app")));
    block_on(async {
        let one = run(&mut one.0, Rc::clone(&one.1));
        let two = run(&mut two.0, Rc::clone(&two.1));
        let three = run(&mut three.0, Rc::clone(&three.1));
        futures_lite::future::zip(one, futures_lite::future::zip(two, three)).await;
    });
    assert_eq!(INSIDE.get(), (0, 60));
}

#[tokio::test(flavor = "current_thread")]
async fn contexts_of_a_thread_exclude_each_other_on_tokio() {
    let user_agent = UserAgent::new();
    let [mut one, mut two] = [(); 2].map(|()| page(user_agent.lock_manager("app")));
    tokio::join!(run(&mut one.0, Rc::clone(&one.1)), run(&mut two.0, Rc::clone(&two.1)),);
    assert_eq!(INSIDE.get(), (0, 40));
}

#[test]
fn contexts_with_private_locks_do_not_see_each_other() {
    let [mut one, mut two] =
        [(); 2].map(|()| Page::with(LocksExtension::default(), Context::default()));
    one.run("navigator.locks.request('db', () => new Promise(() => {}))");
    assert_eq!(
        two.run("navigator.locks.request('db', { ifAvailable: true }, log)"),
        "[object Lock]"
    );
    let seen = two.run("navigator.locks.query().then(({ held }) => log(held.length))");
    assert_eq!(seen, "0");
}

#[test]
fn run_jobs_waits_for_a_lock_that_another_thread_releases() {
    let user_agent = UserAgent::new();
    let mut page = Page::of(user_agent.lock_manager("app"));
    let peer = user_agent.lock_manager("app");
    let guard = peer.lock("db").blocking().unwrap();
    let releases = thread::spawn(move || {
        while block_on(peer.query()).unwrap().pending.is_empty() {
            thread::yield_now();
        }
        drop(guard);
    });
    assert_eq!(page.run("navigator.locks.request('db', (lock) => log(lock.name))"), "db");
    releases.join().unwrap();
}

#[test]
fn the_promise_of_a_request_can_be_awaited_by_rust() {
    let mut page = Page::new();
    let request = page.eval("navigator.locks.request('db', (lock) => lock.name)").unwrap();
    let name = request.as_promise().unwrap().await_blocking(&mut page.context).unwrap();
    assert_eq!(name, js_string!("db").into());
}

#[test]
fn run_jobs_does_not_wait_for_locks_that_are_held_nor_for_requests_that_are_aborted() {
    let mut page = Page::new();
    let logged = page.run(
        "const controller = new AbortController();
        navigator.locks.request('db', () => new Promise(() => {}));
        settled(navigator.locks.request('db', { signal: controller.signal }, () => {}), 'waits');
        navigator.locks.request('other', () => controller.abort());",
    );
    assert_eq!(logged, "waits rejected AbortError");
    assert!(!page.locks.is_waiting());
}

#[test]
fn jobs_that_fail_take_nothing_from_requests_that_wait() {
    let user_agent = UserAgent::new();
    let mut page = Page::of(user_agent.lock_manager("app"));
    let guard = user_agent.lock_manager("app").lock("db").blocking().unwrap();
    page.eval("navigator.locks.request('db', (lock) => log(lock.name))").unwrap();
    // Boa's executor drops all of its jobs then.
    let fail = |_: &mut Context| Err(JsNativeError::error().with_message("as planned").into());
    let realm = page.context.realm().clone();
    page.context.enqueue_job(GenericJob::new(fail, realm).into());
    page.context.run_jobs().unwrap_err();
    assert!(page.locks.is_waiting());
    drop(guard);
    page.locks.resume(&mut page.context);
    page.context.run_jobs().unwrap();
    assert_eq!(page.logged(), "db");
}

/// An executor that goes on when a job has failed, and runs promise jobs until there are none.
#[derive(Default)]
struct GoesOn {
    promise_jobs: RefCell<VecDeque<PromiseJob>>,
    async_jobs: RefCell<VecDeque<NativeAsyncJob>>,
    failed: Cell<u32>,
}

impl JobExecutor for GoesOn {
    fn enqueue_job(self: Rc<Self>, job: Job, _: &mut Context) {
        match job {
            Job::PromiseJob(job) => self.promise_jobs.borrow_mut().push_back(job),
            Job::AsyncJob(job) => self.async_jobs.borrow_mut().push_back(job),
            _ => {}
        }
    }

    fn run_jobs(self: Rc<Self>, context: &mut Context) -> JsResult<()> {
        let context = RefCell::new(context);
        let mut running = Vec::new();
        let mut waker = TaskContext::from_waker(Waker::noop());
        loop {
            while let Some(job) = { self.promise_jobs.borrow_mut().pop_front() } {
                job.call(&mut context.borrow_mut())?;
            }
            running.extend(self.async_jobs.take().into_iter().map(|job| job.call(&context)));
            running.retain_mut(|job| match Pin::new(job).poll(&mut waker) {
                Poll::Pending => true,
                Poll::Ready(done) => {
                    self.failed.set(self.failed.get() + u32::from(done.is_err()));
                    false
                }
            });
            let is_idle =
                self.promise_jobs.borrow().is_empty() && self.async_jobs.borrow().is_empty();
            if is_idle && running.is_empty() {
                return Ok(());
            }
        }
    }
}

#[test]
fn a_callback_that_is_stopped_takes_nothing_from_other_requests() {
    let executor = Rc::new(GoesOn::default());
    let context = Context::builder().job_executor(Rc::clone(&executor)).build().unwrap();
    let mut page = Page::with(LocksExtension::default(), context);
    page.context.runtime_limits_mut().set_loop_iteration_limit(10_000);
    let logged = page.run(
        "let chain = Promise.resolve();
        for (let link = 0; link < 100; link++) chain = chain.then(() => {});
        chain.then(() => log('end of a long chain'));
        navigator.locks.request('db', () => { for (;;); });
        navigator.locks.request('other', (lock) => log(lock.name));",
    );
    assert_eq!(logged, "end of a long chain; other");
    assert_eq!(executor.failed.get(), 1);
    assert_eq!(page.run("navigator.locks.request('db', (lock) => log(lock.name))"), "db");
}

#[test]
fn the_next_request_has_all_that_wait_looked_after_again() {
    let user_agent = UserAgent::new();
    let mut page = Page::of(user_agent.lock_manager("app"));
    let guard = user_agent.lock_manager("app").lock("db").blocking().unwrap();
    page.eval("navigator.locks.request('db', (lock) => log(lock.name))").unwrap();
    let executor = page.context.downcast_job_executor::<SimpleJobExecutor>().unwrap();
    // An executor's future that is dropped while it waits drops the jobs too.
    let context = RefCell::new(&mut page.context);
    let once = executor.run_jobs_async(&context);
    assert!(block_on(futures_lite::future::poll_once(once)).is_none());
    drop(guard);
    assert_eq!(page.run("navigator.locks.request('other', (lock) => log(lock.name))"), "db; other");
}

#[test]
fn a_host_with_a_loop_of_its_own_runs_the_tasks() {
    let user_agent = UserAgent::new();
    let locks = LocksExtension::new(user_agent.lock_manager("app")).driven_by_host();
    let mut page = Page::with(locks, Context::default());
    let guard = user_agent.lock_manager("app").lock("db").blocking().unwrap();
    let locks = page.locks.clone();
    let is_ready = || locks.poll_ready(&mut TaskContext::from_waker(Waker::noop())).is_ready();
    assert_eq!(page.run("navigator.locks.request('db', (lock) => log(lock.name))"), "");
    assert!(locks.is_waiting() && !is_ready());
    drop(guard);
    assert!(is_ready());
    assert!(locks.run_task(&mut page.context).unwrap());
    assert_eq!(page.logged(), "db");
    assert!(!locks.run_task(&mut page.context).unwrap());
    page.context.run_jobs().unwrap();
    assert!(!locks.is_waiting());
}

#[test]
fn a_host_that_looks_after_all_agents_has_nothing_to_do_for_one_that_has_ended() {
    let user_agent = UserAgent::new();
    let locks = LocksExtension::new(user_agent.lock_manager("app")).driven_by_host();
    let mut page = Page::with(locks, Context::default());
    let other = LocksExtension::new(user_agent.lock_manager("other")).driven_by_host();
    let other = other.open(None, &mut page.context).unwrap();
    assert_eq!(Locks::all(&page.context).len(), 2);
    assert!(!other.has_ended());
    other.end();
    assert!(other.has_ended());
    let waker = &mut TaskContext::from_waker(Waker::noop());
    let all = Locks::all(&page.context);
    assert!(all.iter().all(|locks| locks.poll_ready(waker).is_pending()), "it never sleeps again");
    assert_eq!(all.len(), 1);
}

#[test]
fn scripts_hear_of_a_lock_that_is_stolen_though_they_wait_for_nothing() {
    let user_agent = UserAgent::new();
    let locks = LocksExtension::new(user_agent.lock_manager("app")).driven_until_end();
    let executor = Rc::new(SimpleJobExecutor::new());
    let context = Context::builder().job_executor(Rc::clone(&executor)).build().unwrap();
    let mut page = Page::with(locks, context);
    page.eval("settled(navigator.locks.request('db', () => new Promise(() => {})))").unwrap();
    let (locks, thief) = (page.locks.clone(), user_agent.lock_manager("app"));
    block_on(async {
        let context = RefCell::new(&mut page.context);
        let mut jobs = Box::pin(executor.run_jobs_async(&context));
        while thief.query().await.unwrap().held.is_empty() {
            assert!(futures_lite::future::poll_once(&mut jobs).await.is_none());
        }
        drop(thief.lock("db").steal().await.unwrap());
        for _ in 0..100 {
            assert!(futures_lite::future::poll_once(&mut jobs).await.is_none());
        }
        locks.end();
        jobs.await.unwrap();
    });
    assert_eq!(page.logged(), " rejected AbortError");
}

#[test]
fn jobs_that_stay_until_the_agent_ends_hear_of_an_end_that_others_bring_about() {
    let ends: [fn(&UserAgent, &LockManager); 2] =
        [|_, locks| locks.terminate(), |user_agent, _| user_agent.close()];
    for end in ends {
        let user_agent = UserAgent::new();
        let agent = user_agent.lock_manager("app");
        let locks = LocksExtension::new(agent.clone()).driven_until_end();
        let executor = Rc::new(SimpleJobExecutor::new());
        let context = Context::builder().job_executor(Rc::clone(&executor)).build().unwrap();
        let mut page = Page::with(locks, context);
        page.eval("settled(navigator.locks.request('db', () => new Promise(() => {})))").unwrap();
        let locks = page.locks.clone();
        block_on(async {
            let context = RefCell::new(&mut page.context);
            let mut jobs = Box::pin(executor.run_jobs_async(&context));
            for _ in 0..100 {
                assert!(futures_lite::future::poll_once(&mut jobs).await.is_none());
            }
            assert!(!locks.has_ended());
            thread::scope(|threads| {
                threads.spawn(|| end(&user_agent, &agent));
            });
            jobs.await.unwrap();
        });
        assert!(locks.has_ended());
        assert_eq!(page.logged(), " rejected AbortError");
    }
}

#[test]
fn tasks_are_run_in_no_other_context() {
    let (mut page, mut other) = (Page::new(), Page::new());
    page.eval("navigator.locks.request('db', () => log('ran'))").unwrap();
    let error = page.locks.run_task(&mut other.context).unwrap_err();
    assert!(error.to_string().contains("another context"), "{error}");
    page.context.run_jobs().unwrap();
    assert_eq!(page.logged(), "ran");
}

#[test]
fn a_script_can_have_several_lock_managers() {
    let user_agent = UserAgent::new();
    let mut page = Page::of(user_agent.lock_manager("app"));
    let other = LocksExtension::new(user_agent.lock_manager("other"));
    let other = other.open(None, &mut page.context).unwrap();
    let object = other.object(&page.context).unwrap();
    assert_eq!(object, other.object(&page.context).unwrap());
    let attribute = boa_engine::property::Attribute::all();
    page.context.register_global_property(js_string!("other"), object, attribute).unwrap();
    let logged = page.run(
        "navigator.locks.request('db', async (mine) => {
            await other.request('db', { ifAvailable: true }, (theirs) => log(mine.name, theirs.name));
            log(other instanceof LockManager, other !== navigator.locks);
        });",
    );
    assert_eq!(logged, "db db; true true");
}

#[cfg(feature = "runtime")]
#[test]
fn locks_are_an_extension_of_boas_runtime() {
    let mut context = Context::default();
    let extensions = (LocksExtension::default(), boa_runtime::extensions::TimeoutExtension);
    boa_runtime::register(extensions, None, &mut context).unwrap();
    let script = "navigator.locks.request('db', { signal: AbortSignal.timeout(1) },
        () => new Promise((resolve) => setTimeout(resolve, 5))).then(() => globalThis.done = true)";
    context.eval(Source::from_bytes(script)).unwrap();
    context.run_jobs().unwrap();
    assert!(context.eval(Source::from_bytes("done")).unwrap().to_boolean());
}
