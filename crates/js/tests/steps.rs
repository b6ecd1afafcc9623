//! The method steps and tasks, with an engine that does what a test says.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod script;

use std::{
    cell::{Cell, RefCell},
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
    host::{AgentId, Answer, Backend, MemoryReach, QueryFuture, Reach, RequestKind, Ticket},
};
use navlock_js::{RequestKey, illegal_invocation};

use self::script::{Failure, Promise, Property, Script, ScriptRealm, Signal, Value};

/// A realm, and another agent of its bucket.
fn start() -> (Script, LockManager) {
    let locks = UserAgent::new().lock_manager("app");
    (Script::new(locks.clone()), locks.bucket().lock_manager())
}

fn is_free(other: &LockManager, name: &str) -> bool {
    other.try_lock(name).blocking().unwrap().is_some()
}

/// A callback that returns what it was given.
fn identity() -> Value {
    Value::function(|_, lock| Ok(lock))
}

/// A callback that returns a promise, and that promise.
fn keeping() -> (Value, Promise) {
    let kept = Promise::new();
    let returned = kept.clone();
    (Value::function(move |_, _| Ok(Value::Promise(returned.clone()))), kept)
}

fn options<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    Value::object(members)
}

const YES: Value = Value::Boolean(true);

/// A waker that counts.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_callback_is_called_in_a_task_and_its_lock_released_before_the_promise_settles() {
    let (mut script, other) = start();
    let (callback, kept) = keeping();
    let promise = script.request(&["db".into(), callback]).unwrap();
    assert!(!is_free(&other, "db"), "it is requested in the call");
    script.run_microtasks().unwrap();
    script.run().unwrap();
    assert!(promise.outcome().is_none() && !is_free(&other, "db"));
    script.settle(&kept, Ok("done".into()));
    script.run_microtasks().unwrap();
    assert!(is_free(&other, "db"));
    assert_eq!(promise.outcome().unwrap().unwrap().text(), "done");
}

#[test]
fn a_task_is_one_callback_and_who_runs_tasks_is_woken_from_other_threads() {
    let (mut script, other) = start();
    let held = other.lock("db").blocking().unwrap();
    let called = Rc::new(Cell::new(0));
    for _ in 0..2 {
        let called = Rc::clone(&called);
        let count = Value::function(move |_, _| {
            called.set(called.get() + 1);
            Ok(Value::Undefined)
        });
        script.request(&["db".into(), options([("mode", "shared".into())]), count]).unwrap();
    }
    let realm = script.realm.clone();
    let counted = Arc::new(Counted::default());
    let waker = Arc::clone(&counted).into();
    let mut context = Context::from_waker(&waker);
    assert!(realm.is_waiting() && realm.poll_ready(&mut context).is_pending());
    std::thread::spawn(|| drop(held)).join().unwrap();
    assert!(counted.0.load(SeqCst) > 0);
    assert_eq!(realm.poll_ready(&mut context), Poll::Ready(()));
    assert!(realm.run_task(&mut script).unwrap());
    assert_eq!(called.get(), 1);
    assert!(realm.is_waiting());
    assert!(realm.run_task(&mut script).unwrap());
    assert_eq!(called.get(), 2);
    assert!(!realm.is_waiting() && !realm.run_task(&mut script).unwrap());
}

#[test]
fn a_realm_says_how_many_tasks_there_are() {
    let (mut script, other) = start();
    let realm = script.realm.clone();
    for name in ["one", "two"] {
        script.request(&[name.into(), identity()]).unwrap();
    }
    assert_eq!(realm.tasks(), 2, "one for each that was granted");
    let held = other.lock("held").blocking().unwrap();
    script.request(&["held".into(), identity()]).unwrap();
    assert_eq!(realm.tasks(), 2, "none for one that waits");
    drop(held);
    assert_eq!(realm.tasks(), 3);
    for left in [2, 1, 0] {
        assert!(realm.run_task(&mut script).unwrap());
        assert_eq!(realm.tasks(), left);
    }
}

#[test]
fn each_of_a_crowd_is_told_what_becomes_of_it_when_others_were_in_its_place_before() {
    let (mut script, other) = start();
    let shared = || options([("mode", "shared".into())]);
    for _ in 0..2 {
        let held = other.lock("db").blocking().unwrap();
        let request = |_| script.request(&["db".into(), identity()]).unwrap();
        let promises: Vec<_> = (0..3000).map(request).collect();
        drop(held);
        script.run().unwrap();
        assert!(promises.iter().all(|promise| matches!(promise.outcome(), Some(Ok(_)))));
        // Those that are lost are told so by what was told of their grants.
        let held = other.lock("db").blocking().unwrap();
        let (callback, _kept) = keeping();
        let request = |_| script.request(&["db".into(), shared(), callback.clone()]).unwrap();
        let promises: Vec<_> = (0..1500).map(request).collect();
        drop(held);
        script.run().unwrap();
        assert!(promises.iter().all(|promise| promise.outcome().is_none()));
        drop(other.lock("db").steal().blocking().unwrap());
        script.run().unwrap();
        assert!(promises.iter().all(|promise| matches!(promise.outcome(), Some(Err(_)))));
    }
    assert!(!script.realm.is_waiting());
}

#[test]
fn checks_are_made_in_the_order_of_the_specification() {
    let signal = || Value::Signal(Rc::default());
    let aborted = || {
        let (signal, mut script) = (Rc::new(Signal::default()), start().0);
        script.abort(&signal, &"aborted".into()).unwrap();
        Value::Signal(signal)
    };
    // Each of these has what the next is refused for as well.
    let cases: [(&str, Value, &str); 6] = [
        ("-db", options([("steal", YES), ("ifAvailable", YES), ("signal", aborted())]), "reserved"),
        (
            "db",
            options([("steal", YES), ("ifAvailable", YES), ("mode", "shared".into())]),
            "exclude",
        ),
        (
            "db",
            options([("steal", YES), ("mode", "shared".into()), ("signal", aborted())]),
            "exclusive",
        ),
        ("db", options([("steal", YES), ("signal", aborted())]), "signal"),
        ("db", options([("ifAvailable", YES), ("signal", signal())]), "signal"),
        ("db", options([("signal", aborted())]), "aborted"),
    ];
    let (mut script, other) = start();
    for (name, options, why) in cases.clone() {
        let promise = script.request(&[name.into(), options, identity()]).unwrap();
        match promise.outcome() {
            Some(Err(Value::Error { name: "NotSupportedError", message })) => {
                let is_said = message.contains(why) || (why == "reserved" && message.contains('-'));
                assert!(is_said, "{message:?} is not about {why}");
            }
            Some(Err(reason)) => assert_eq!(reason.text(), why),
            outcome => panic!("{why}: {outcome:?}"),
        }
    }
    script.realm.locks().set_fully_active(false);
    for (name, options, _) in cases {
        let promise = script.request(&[name.into(), options, identity()]).unwrap();
        assert_eq!(promise.rejection().as_deref(), Some("InvalidStateError"));
    }
    assert_eq!(script.query().unwrap().rejection().as_deref(), Some("InvalidStateError"));
    assert!(is_free(&other, "db"));

    let mut opaque = Script::new(UserAgent::new().opaque_bucket().lock_manager());
    let promise = opaque.request(&["-db".into(), identity()]).unwrap();
    assert_eq!(promise.rejection().as_deref(), Some("SecurityError"));
    assert_eq!(opaque.query().unwrap().rejection().as_deref(), Some("SecurityError"));
}

#[test]
fn arguments_are_converted_once_from_the_left_to_the_right() {
    let (mut script, _other) = start();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let note = |what: &'static str, value: Value| {
        let seen = Rc::clone(&seen);
        Property::Getter(Rc::new(move |_| {
            seen.borrow_mut().push(what);
            Ok(value.clone())
        }))
    };
    let name = Value::Object(Rc::new(vec![(
        "toString",
        note("name", Value::function(|_, _| Ok("db".into()))),
    )]));
    let options = Value::Object(Rc::new(vec![
        ("steal", note("steal", Value::Undefined)),
        ("signal", note("signal", Value::Undefined)),
        ("mode", note("mode", "shared".into())),
        ("ifAvailable", note("ifAvailable", Value::Undefined)),
    ]));
    let promise = script.request(&[name.clone(), options.clone(), identity(), YES]).unwrap();
    script.run().unwrap();
    let lock = promise.outcome().unwrap().unwrap();
    assert_eq!(lock.get("mode").unwrap().text(), "shared");
    let order = ["name", "ifAvailable", "mode", "signal", "steal"];
    assert_eq!(*seen.borrow(), order);
    seen.borrow_mut().clear();
    // The callback comes last.
    let promise = script.request(&[name, options, "no function".into()]).unwrap();
    assert_eq!(promise.rejection().as_deref(), Some("TypeError"));
    assert_eq!(*seen.borrow(), order);
}

#[test]
fn what_cannot_be_converted_is_a_rejection() {
    let (mut script, other) = start();
    let thrown = Value::Object(Rc::new(vec![(
        "mode",
        Property::Getter(Rc::new(|_| Err(Failure::Thrown("as planned".into())))),
    )]));
    let cases: [(Vec<Value>, &str); 9] = [
        (vec![], "TypeError"),
        (vec!["db".into()], "TypeError"),
        (vec![Value::Symbol, identity()], "TypeError"),
        (vec!["db".into(), YES, identity()], "TypeError"),
        (vec!["db".into(), options([("mode", "Shared".into())]), identity()], "TypeError"),
        (vec!["db".into(), options([("signal", Value::Null)]), identity()], "TypeError"),
        (vec!["db".into(), identity(), Value::Undefined], "TypeError"),
        (vec!["db".into(), Value::Null, Value::object([])], "TypeError"),
        (vec!["db".into(), thrown, identity()], "as planned"),
    ];
    for (arguments, reason) in cases {
        let promise = script.request(&arguments).unwrap();
        assert_eq!(promise.rejection().as_deref(), Some(reason));
        assert!(is_free(&other, "db") && !script.realm.is_waiting());
    }
    let Ok(Value::Promise(promise)) = illegal_invocation(&mut script, "query") else { panic!() };
    assert_eq!(promise.rejection().as_deref(), Some("TypeError"));
}

#[test]
fn a_signal_aborts_until_the_callback_is_called_and_keeps_nothing_then() {
    let (mut script, other) = start();
    let signal = Rc::new(Signal::default());
    let with_signal = options([("signal", Value::Signal(Rc::clone(&signal)))]);
    let (callback, kept) = keeping();
    let held = script.request(&["db".into(), with_signal.clone(), callback]).unwrap();
    let algorithms = signal.algorithms();
    script.run().unwrap();
    assert!(signal.algorithms().is_empty());
    // Nor does it if an engine calls it all the same.
    let realm = script.realm.clone();
    realm.abort(&mut script, algorithms[0], "late".into()).unwrap();
    assert!(!is_free(&other, "db"));
    let waits = script.request(&["db".into(), with_signal.clone(), identity()]).unwrap();
    // Granted, and its callback not called.
    let granted = script.request(&["free".into(), with_signal, identity()]).unwrap();
    assert_eq!(signal.algorithms().len(), 2);
    script.abort(&signal, &"enough".into()).unwrap();
    for promise in [waits, granted] {
        assert_eq!(promise.rejection().as_deref(), Some("enough"));
    }
    assert!(is_free(&other, "free") && !script.realm.is_waiting());
    script.run().unwrap();
    script.settle(&kept, Ok("kept".into()));
    script.run().unwrap();
    assert_eq!(held.outcome().unwrap().unwrap().text(), "kept");
}

#[test]
fn a_lock_that_is_lost_rejects_whatever_the_callback_does_later() {
    let (mut script, other) = start();
    let (callback, kept) = keeping();
    let running = script.request(&["db".into(), callback]).unwrap();
    script.run().unwrap();
    let due =
        script.request(&["due".into(), Value::function(|_, _| panic!("it is called"))]).unwrap();
    let _thieves = ["db", "due"].map(|name| other.lock(name).steal().blocking().unwrap());
    script.run().unwrap();
    for promise in [running, due] {
        assert_eq!(promise.rejection().as_deref(), Some("AbortError"));
    }
    script.settle(&kept, Ok(Value::Undefined));
    script.run().unwrap();
    assert!(!is_free(&other, "db"), "the thief's lock was released");

    // The callback ends before anybody says that the lock is lost.
    let (callback, kept) = keeping();
    let settled = script.request(&["third".into(), callback]).unwrap();
    script.run().unwrap();
    let _thief = other.lock("third").steal().blocking().unwrap();
    script.settle(&kept, Ok(Value::Undefined));
    script.run_microtasks().unwrap();
    assert_eq!(settled.rejection().as_deref(), Some("AbortError"));
}

#[test]
fn a_query_sees_what_was_requested_before_it_and_nothing_later() {
    let (mut script, _other) = start();
    let (callback, _kept) = keeping();
    script.request(&["db".into(), callback]).unwrap();
    script.request(&["db".into(), options([("mode", "shared".into())]), identity()]).unwrap();
    let asked = script.query().unwrap();
    script.request(&["later".into(), identity()]).unwrap();
    script.run().unwrap();
    let told = asked.outcome().unwrap().unwrap();
    let names = |list: &str| {
        let Some(Value::Array(entries)) = told.get(list) else { panic!("no {list}") };
        let text = |entry: &Value, key: &str| entry.get(key).unwrap().text();
        let all = entries.iter().map(|entry| (text(entry, "name"), text(entry, "mode")));
        all.collect::<Vec<_>>()
    };
    let entry = |mode: &str| vec![("db".to_owned(), mode.to_owned())];
    assert_eq!((names("held"), names("pending")), (entry("exclusive"), entry("shared")));
}

#[test]
fn an_answer_that_cannot_be_made_is_a_rejection() {
    // The two lists, and what has them; as where memory is short.
    for call in 1..=3 {
        let (mut script, _other) = start();
        let asked = script.query().unwrap();
        script.throw_at(call);
        script.run().unwrap();
        assert_eq!(asked.rejection().as_deref(), Some("as planned"));
    }
}

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
        // It has nothing, and waits for nothing.
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
    /// The realm that a host comes back to when it is woken.
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

/// A reach that wakes those who ask it for a snapshot, as it may.
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
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        self.0.request(agent, name, kind, waker)
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

    // A signal of the embedder's, which is asked when all else is checked.
    let (mut script, other) = start();
    let signal = Rc::new(Signal::default());
    *signal.when_asked.borrow_mut() = Some(Rc::new(ends));
    let with_signal = options([("signal", Value::Signal(signal))]);
    let promise = script.request(&["db".into(), with_signal, identity()]).unwrap();
    assert!(promise.outcome().is_none() && is_free(&other, "db"));
    assert!(!script.realm.is_waiting(), "its host waits for what cannot come");
}

#[test]
fn what_panics_leaves_no_lock_and_no_request_behind() {
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
    // Nothing of it is done while the panic goes on: its script is told in a task.
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
fn what_was_to_settle_a_request_fails_it_unless_it_is_settled() {
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
        // Too late: the slot is another's.
        let (callback, _kept) = keeping();
        script.request(&["db".into(), callback]).unwrap();
        script.run().unwrap();
        end(&mut script, key);
        script.settle(&kept, Ok(YES));
        script.run().unwrap();
        assert!(!is_free(&other, "db"));
    }
}

/// A script that uses everything: a request that waits, with a signal, and one that is granted; a query;
/// a theft; an abort.
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
        // What was on its way is done.
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
