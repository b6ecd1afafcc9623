//! Realms that end, and engines that panic or stop: nothing is left behind, and no lock stays held.

use std::{
    cell::RefCell,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

use navlock_core::{
    ClientId, Error, LockManager, Lost, ResourceName, UserAgent,
    host::{
        AgentId, Answer, Backend, MemoryReach, QueryFuture, Reach, RequestDetails, RequestKind,
        Ticket,
    },
};
use navlock_js::RequestKey;

use super::{
    Counted, YES, identity, is_free, keeping, options,
    script::{Failure, Property, Script, ScriptRealm, Signal, Value},
    start,
};

#[test]
fn nothing_is_left_of_a_realm_that_has_ended_and_it_takes_nothing_more() {
    let (mut script, other) = start();
    let (callback, kept) = keeping();
    let held = script.request(&["db".into(), callback]).unwrap();
    script.run().unwrap();
    let pending = script.request(&["db".into(), identity()]).unwrap();
    script.realm.end();
    assert!(is_free(&other, "db") && !script.realm.is_waiting());
    script.settle(&kept, Ok(Value::Undefined));
    script.run().unwrap();
    assert!(held.outcome().is_none() && pending.outcome().is_none());
    let refused = script.request(&["db".into(), identity()]).unwrap();
    assert_eq!(refused.rejection().as_deref(), Some("InvalidStateError"));
}

#[test]
fn a_realm_hears_of_an_end_that_others_bring_about_and_scripts_of_what_they_lose_by_it() {
    let ends: [fn(&UserAgent, &LockManager); 2] =
        [|_, locks| locks.terminate(), |user_agent, _| user_agent.close()];
    for end in ends {
        let user_agent = UserAgent::new();
        let locks = user_agent.lock_manager("app");
        let realm = Script::new(locks.clone()).realm;
        let counted = Arc::new(Counted::default());
        let waker = Arc::clone(&counted).into();
        let mut context = Context::from_waker(&waker);
        // The realm has nothing, and waits for nothing.
        assert!(realm.poll_ready(&mut context).is_pending() && !realm.has_ended());
        std::thread::scope(|threads| {
            threads.spawn(|| end(&user_agent, &locks));
        });
        assert!(counted.0.load(SeqCst) > 0 && realm.has_ended() && realm.is_over());
        assert!(realm.poll_ready(&mut context).is_pending(), "a host polls for ever");

        let user_agent = UserAgent::new();
        let locks = user_agent.lock_manager("app");
        let mut script = Script::new(locks.clone());
        let (callback, _kept) = keeping();
        let held = script.request(&["db".into(), callback]).unwrap();
        script.run().unwrap();
        let pending = script.request(&["db".into(), identity()]).unwrap();
        end(&user_agent, &locks);
        assert!(script.realm.has_ended() && !script.realm.is_over());
        assert!(script.realm.poll_ready(&mut context).is_ready());
        script.run().unwrap();
        assert_eq!(held.rejection().as_deref(), Some("AbortError"));
        assert_eq!(pending.rejection().as_deref(), Some("InvalidStateError"));
        assert!(script.realm.is_over() && script.realm.poll_ready(&mut context).is_pending());
    }
    let locks = UserAgent::new().lock_manager("app");
    locks.terminate();
    assert!(Script::new(locks).realm.has_ended());
}

thread_local! {
    /// The realm that a woken host calls.
    static WOKEN: RefCell<Option<ScriptRealm>> = const { RefCell::new(None) };
}

#[test]
fn a_host_that_is_woken_while_something_is_polled_may_come_back_at_once() {
    struct Host(AtomicUsize);
    impl Wake for Host {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
            WOKEN.with_borrow(|realm| {
                let realm = realm.as_ref().unwrap();
                let _ = realm.is_waiting();
                let waker = Arc::clone(&self).into();
                assert!(realm.poll_ready(&mut Context::from_waker(&waker)).is_ready());
            });
        }
    }

    let user_agent = UserAgent::with_reach(WakingReach);
    let mut script = Script::new(user_agent.lock_manager("app"));
    WOKEN.set(Some(script.realm.clone()));
    let host = Arc::new(Host(AtomicUsize::new(0)));
    let waker = Arc::clone(&host).into();
    assert!(script.realm.poll_ready(&mut Context::from_waker(&waker)).is_pending());
    let promise = script.query().unwrap();
    assert_eq!(host.0.load(SeqCst), 1, "the backend has woken it while it was asked");
    script.run().unwrap();
    assert!(promise.outcome().unwrap().is_ok());
    WOKEN.set(None);
}

/// A reach that wakes its caller while the caller asks for a snapshot. A reach may do so.
#[derive(Debug)]
struct WakingReach;

#[derive(Debug)]
struct WakingBackend(Box<dyn Backend>);

impl Reach for WakingReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(WakingBackend(MemoryReach::default().open_bucket(name)))
    }
}

impl Backend for WakingBackend {
    fn open_agent(&self, client_id: ClientId) -> AgentId {
        self.0.open_agent(client_id)
    }

    fn close_agent(&self, agent: AgentId) {
        self.0.close_agent(agent);
    }

    fn terminate(&self, agent: AgentId) {
        self.0.terminate(agent);
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        details: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        self.0.request(agent, name, kind, details, waker)
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        self.0.poll_request(ticket, waker)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        self.0.poll_lost(ticket, waker)
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        self.0.lost(ticket)
    }

    fn finish(&self, ticket: Ticket) {
        self.0.finish(ticket);
    }

    fn query(&self) -> QueryFuture<'_> {
        Box::pin(async {
            poll_fn(|context| {
                context.waker().wake_by_ref();
                Poll::Ready(())
            })
            .await;
            self.0.query().await
        })
    }
}

#[test]
fn the_end_of_a_realm_within_a_callback_or_a_conversion_is_its_end() {
    let (mut script, other) = start();
    let ends = |script: &mut Script| {
        script.realm.end();
        Ok(Value::Undefined)
    };
    let promise = script.request(&["db".into(), Value::function(move |script, _| ends(script))]);
    script.run().unwrap();
    assert!(promise.unwrap().outcome().is_none() && is_free(&other, "db"));

    let (mut script, other) = start();
    let at_mode = Value::Object(Rc::new(vec![("mode", Property::Getter(Rc::new(ends)))]));
    let promise = script.request(&["db".into(), at_mode, identity()]).unwrap();
    assert_eq!(promise.rejection().as_deref(), Some("InvalidStateError"));
    assert!(is_free(&other, "db"));

    // The embedder's own signal is asked after all other checks.
    let (mut script, other) = start();
    let signal = Rc::new(Signal::default());
    *signal.when_asked.borrow_mut() = Some(Rc::new(ends));
    let with_signal = options([("signal", Value::Signal(signal))]);
    let promise = script.request(&["db".into(), with_signal, identity()]).unwrap();
    assert!(promise.outcome().is_none() && is_free(&other, "db"));
    assert!(!script.realm.is_waiting(), "its host waits for what cannot come");
}

#[test]
fn a_panicking_callback_leaves_no_lock_and_no_request_behind() {
    fn panics(_: &mut Script) -> Result<Value, Failure> {
        panic!("as planned")
    }

    let panicked = |run: &mut dyn FnMut()| {
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(*panic.downcast::<&str>().unwrap(), "as planned");
    };
    let (mut script, other) = start();
    let promise =
        script.request(&["db".into(), Value::function(|script, _| panics(script))]).unwrap();
    panicked(&mut || script.run().unwrap());
    assert!(is_free(&other, "db"));
    // While the panic goes on, the promise is not settled. A later task tells the script.
    assert!(promise.outcome().is_none());
    script.run().unwrap();
    assert_eq!(promise.rejection().as_deref(), Some("AbortError"));

    let signal = Rc::new(Signal::default());
    *signal.when_added.borrow_mut() = Some(Rc::new(panics));
    let with_signal = options([("signal", Value::Signal(signal))]);
    let arguments = ["db".into(), with_signal, identity()];
    panicked(&mut || drop(script.request(&arguments)));
    script.run().unwrap();
    assert!(!script.realm.is_waiting(), "its host waits for what nobody has asked for");
    assert!(is_free(&other, "db"));
}

#[test]
fn a_failed_attempt_to_settle_a_request_fails_the_request_unless_it_is_settled() {
    type End = fn(&mut Script, RequestKey);
    let ends: [(&str, End); 4] = [
        ("thrown", |script, key| {
            let realm = script.realm.clone();
            realm.attempt(script, key, |_| Err(Failure::Thrown("thrown".into()))).unwrap();
        }),
        ("AbortError", |script, key| {
            let realm = script.realm.clone();
            realm.attempt(script, key, |_| Err(Failure::Stopped)).unwrap_err();
        }),
        ("AbortError", |script, key| {
            let realm = script.realm.clone();
            let panics = |_: &mut Script| panic!("as planned");
            let attempt = AssertUnwindSafe(|| realm.attempt(script, key, panics));
            drop(catch_unwind(attempt).unwrap_err());
        }),
        ("AbortError", |script, key| script.realm.stop(key)),
    ];
    for (reason, end) in ends {
        let (mut script, other) = start();
        let (callback, kept) = keeping();
        let promise = script.request(&["db".into(), callback]).unwrap();
        script.run().unwrap();
        let key = kept.reactions()[0];
        end(&mut script, key);
        assert!(is_free(&other, "db"));
        script.run().unwrap();
        assert_eq!(promise.rejection().as_deref(), Some(reason));
        // These come too late, because another request has the slot by now.
        let (callback, _kept) = keeping();
        script.request(&["db".into(), callback]).unwrap();
        script.run().unwrap();
        end(&mut script, key);
        script.settle(&kept, Ok(YES));
        script.run().unwrap();
        assert!(!is_free(&other, "db"));
    }
}

/// A script that uses everything: a request that waits, with a signal, and another that is granted;
/// a query; a theft; and an abort.
fn use_everything(script: &mut Script, other: &LockManager) -> Result<(), Failure> {
    let held = other.lock("db").blocking().unwrap();
    let signal = Rc::new(Signal::default());
    let with_signal = options([("signal", Value::Signal(Rc::clone(&signal)))]);
    script.request(&["db".into(), with_signal.clone(), identity()])?;
    script.request(&["db".into(), with_signal, identity()])?;
    script.request(&["free".into(), identity()])?;
    script.request(&["-refused".into(), identity()])?;
    script.request(&["free".into(), Value::function(|_, _| Err(Failure::Thrown(YES)))])?;
    let (callback, kept) = keeping();
    script.request(&["stolen".into(), callback])?;
    script.query()?;
    script.run()?;
    drop(other.lock("stolen").steal().blocking().unwrap());
    drop(held);
    script.run()?;
    script.abort(&signal, &YES)?;
    script.settle(&kept, Ok(YES));
    script.run()
}

#[test]
fn wherever_the_engine_is_stopped_no_lock_is_held_by_what_was_stopped() {
    for fuse in 1..10_000 {
        let (mut script, other) = start();
        script.fail_after(Some(fuse));
        let outcome = use_everything(&mut script, &other);
        // The microtasks and tasks that are still queued run without a fault.
        script.fail_after(None);
        script.run().unwrap();
        for name in ["db", "free"] {
            assert!(is_free(&other, name), "{name} is held: the engine was stopped at call {fuse}");
        }
        script.realm.end();
        assert!(is_free(&other, "stolen"));
        if outcome.is_ok() {
            assert!(fuse > 30, "only {fuse} calls can fail");
            return;
        }
    }
    panic!("it fails also where it is not stopped");
}
