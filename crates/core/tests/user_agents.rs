//! What does not depend on the reach: separate user agents, executors, and which values may cross
//! threads.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    future::{Future, IntoFuture},
    panic::{RefUnwindSafe, UnwindSafe},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use navlock_core::{
    Bucket, ClientId, Error, Lock, LockFuture, LockGuard, LockManager, LockRequest, ResourceName,
    UserAgent, blocking::block_on,
};

#[test]
fn user_agents_do_not_see_each_other() {
    let (a, b) = (UserAgent::new().lock_manager("app"), UserAgent::new().lock_manager("app"));
    let mine = block_on(a.lock("db")).unwrap();
    let theirs = block_on(b.lock("db").steal()).unwrap();
    assert!(!mine.is_lost() && !theirs.is_lost());
    assert_eq!(block_on(a.query()).unwrap().held[0].client_id, a.client_id());
    assert_eq!(block_on(b.query()).unwrap().held.len(), 1);
}

#[test]
fn all_of_a_process_shares_one_user_agent() {
    let name = "all_of_a_process_shares_one_user_agent";
    let guard = block_on(UserAgent::in_process().lock_manager(name).lock("db")).unwrap();
    let elsewhere = thread::spawn(move || {
        block_on(UserAgent::in_process().lock_manager(name).lock("db").if_available())
    });
    assert!(elsewhere.join().unwrap().unwrap().is_none());
    drop(guard);
}

#[test]
fn closing_the_user_agent_of_the_process_closes_only_the_agents_of_that_handle() {
    let name = "closing_the_user_agent_of_the_process";
    let (library, program) = (UserAgent::in_process(), UserAgent::in_process());
    let (its, mine) = (library.lock_manager(name), program.lock_manager(name));
    let also_its = its.bucket().lock_manager();
    let guard = block_on(mine.lock("db")).unwrap();
    let lost = block_on(its.lock("log")).unwrap();

    library.clone().close();
    assert_eq!(block_on(lost.lost()), navlock_core::Lost::Closed);
    for closed in [&its, &also_its, &library.lock_manager(name)] {
        assert_eq!(block_on(closed.lock("db")).unwrap_err(), Error::Closed);
    }
    assert!(!guard.is_lost());
    drop(block_on(mine.lock("log")).unwrap());
    drop(block_on(UserAgent::in_process().lock_manager(name).lock("another")).unwrap());
}

#[test]
fn agents_that_are_closed_together_grant_nothing_to_each_other() {
    let name = "agents_that_are_closed_together";
    let (closed, open) = (UserAgent::in_process(), UserAgent::in_process().lock_manager(name));
    let agents: Vec<_> = (0..8).map(|_| closed.lock_manager(name)).collect();
    let held = block_on(agents[0].lock("db")).unwrap();
    let mut waiting: Vec<_> =
        agents.iter().map(|locks| Box::pin(locks.lock("db").into_future())).collect();
    let mut survivor = Box::pin(open.lock("db").into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.iter_mut().all(|request| request.as_mut().poll(&mut context).is_pending()));
    assert!(survivor.as_mut().poll(&mut context).is_pending());

    closed.close();
    // Tokens count grants, and this is the next grant.
    let token = block_on(survivor).unwrap().fencing_token().get();
    assert_eq!(token, held.fencing_token().get() + 1);
    assert!(waiting.into_iter().all(|request| block_on(request).unwrap_err() == Error::Closed));
}

#[test]
fn a_closed_user_agent_leaves_others_open() {
    let (closed, open) = (UserAgent::new(), UserAgent::new());
    closed.close();
    assert_eq!(block_on(closed.lock_manager("app").lock("db")).unwrap_err(), Error::Closed);
    drop(block_on(open.lock_manager("app").lock("db")).unwrap());
}

#[test]
fn handles_guards_and_futures_move_between_threads() {
    fn send_and_sync<T: Send + Sync + 'static>() {}
    fn send<T: Send>(value: T) -> T {
        value
    }
    send_and_sync::<UserAgent>();
    send_and_sync::<Bucket>();
    send_and_sync::<LockManager>();
    send_and_sync::<LockGuard>();
    send_and_sync::<Lock>();
    send_and_sync::<Error>();
    send_and_sync::<ResourceName>();
    send_and_sync::<LockRequest<'static>>();
    send_and_sync::<LockFuture<'static, Option<LockGuard>>>();

    let locks = UserAgent::new().lock_manager("app");
    let guard = block_on(send(locks.lock("db").into_future())).unwrap();
    block_on(send(async { locks.lock("log").run(async |_| ()).await })).unwrap();
    block_on(send(locks.request("log", async |lock| drop(lock)))).unwrap();
    block_on(send(locks.request_all(["a", "b"], async |locks| drop(locks)))).unwrap();
    block_on(send(locks.query())).unwrap();
    drop(send(guard.lost()));
    thread::spawn(move || drop(guard)).join().unwrap();
    assert!(block_on(locks.query()).unwrap().held.is_empty());
}

#[test]
fn public_types_may_be_used_after_a_panic_was_caught() {
    fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    unwind_safe::<UserAgent>();
    unwind_safe::<Bucket>();
    unwind_safe::<LockManager>();
    unwind_safe::<LockGuard>();
    unwind_safe::<Lock>();
    unwind_safe::<Error>();
    unwind_safe::<ResourceName>();
    unwind_safe::<LockRequest<'static>>();
    unwind_safe::<LockFuture<'static, Option<LockGuard>>>();

    let locks = UserAgent::new().lock_manager("app");
    let guard = block_on(locks.lock("db")).unwrap();
    let panicked = std::panic::catch_unwind(|| {
        let _also = block_on(locks.lock("log")).unwrap();
        assert!(!guard.is_lost());
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err());
    drop(guard);
    drop(block_on(locks.lock_all(["db", "log"])).unwrap());
}

#[test]
fn an_owned_request_is_a_task_of_its_own() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let user_agent = UserAgent::new();
    let (holding, waiting) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    let holder = block_on(holding.lock("db")).unwrap();
    let task = tokio.spawn(waiting.lock("db").into_owned());
    let never = waiting.lock("db").into_owned();
    assert!(never.pending().is_none());
    drop((waiting, never));
    while block_on(holding.query()).unwrap().pending.is_empty() {
        thread::yield_now();
    }
    drop(holder);
    drop(tokio.block_on(task).unwrap().unwrap());
    assert!(block_on(holding.query()).unwrap().held.is_empty());
    let failed = tokio.spawn(holding.lock("-").into_owned());
    assert_eq!(tokio.block_on(failed).unwrap().unwrap_err(), Error::ReservedName);
}

/// The same work on each executor. Writers read, wait and write back.
async fn count_to_forty(locks: LockManager, wait: impl AsyncFn() + Clone + Send + 'static) -> u32 {
    let total = std::cell::Cell::new(0);
    let writers = (0..4).map(|_| async {
        for _ in 0..10 {
            let added = locks.request("total", async |_| {
                let before = total.get();
                wait().await;
                total.set(before + 1);
            });
            added.await.unwrap();
        }
    });
    let mut writers: Vec<_> = writers.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        writers.retain_mut(|writer| Future::poll(writer.as_mut(), context).is_pending());
        if writers.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    total.get()
}

#[test]
fn locks_work_on_tokio_on_smol_and_on_a_bare_block_on() {
    let locks = UserAgent::new().lock_manager("app");
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let nap = Duration::from_micros(100);

    // These pauses do not wait for an event. They are the work under the lock, timed by the
    // executor.
    let on_tokio = count_to_forty(locks.clone(), async move || tokio::time::sleep(nap).await);
    assert_eq!(tokio.block_on(on_tokio), 40);
    let on_smol = count_to_forty(locks.clone(), async move || {
        smol::Timer::after(nap).await;
    });
    assert_eq!(smol::block_on(on_smol), 40);
    assert_eq!(block_on(count_to_forty(locks, async || ())), 40);
}

#[test]
fn executors_share_one_lock() {
    let locks = UserAgent::new().lock_manager("app");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let data = std::sync::Arc::new(std::sync::Mutex::new(0));
    let work = |locks: LockManager, data: std::sync::Arc<std::sync::Mutex<u32>>| async move {
        for _ in 0..500 {
            let guard = locks.lock("data").await.unwrap();
            *data.try_lock().expect("the lock keeps everybody else out") += 1;
            drop(guard);
        }
    };
    let tasks: Vec<_> = (0..2).map(|_| tokio.spawn(work(locks.clone(), data.clone()))).collect();
    let smol = smol::spawn(work(locks.clone(), data.clone()));
    block_on(work(locks, data.clone()));
    smol::block_on(smol);
    for task in tasks {
        tokio.block_on(task).unwrap();
    }
    assert_eq!(*data.lock().unwrap(), 2000);
}

#[test]
fn a_tokio_timeout_aborts_the_request() {
    let locks = UserAgent::new().lock_manager("app");
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    tokio.block_on(async {
        let _holder = locks.lock("db").await.unwrap();
        let request = locks.lock("db").into_future();
        assert!(tokio::time::timeout(Duration::from_millis(5), request).await.is_err());
        assert!(locks.query().await.unwrap().pending.is_empty());
    });
}

#[test]
fn a_client_id_is_its_bytes_and_its_text() {
    let id = UserAgent::new().lock_manager("app").client_id();
    assert_eq!(ClientId::from_bytes(id.to_bytes()), id);
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(format!("{id:?}"), id.to_string());
}

#[test]
fn debug_texts_name_the_type_and_its_contents() {
    let user_agent = UserAgent::new();
    let bucket = user_agent.bucket("app");
    assert_eq!(bucket.name(), Some("app"));
    assert_eq!(user_agent.opaque_bucket().name(), None);
    assert_eq!(format!("{bucket:?}"), r#"Bucket(Some("app"))"#);
    let locks = bucket.lock_manager();
    let guard = block_on(locks.lock("db")).unwrap();
    let shown = format!("{locks:?} {guard:?}");
    for part in ["LockManager", "app", "LockGuard", "db"] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
}
