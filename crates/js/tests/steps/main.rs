//! The method steps and tasks, on an engine that does what a test demands.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod conversions;
mod ends;
mod script;

use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake},
};

use navlock_core::{LockManager, UserAgent};

use self::script::{Promise, Script, Signal, Value};

/// A realm, and another agent of its bucket.
fn start() -> (Script, LockManager) {
    let locks = UserAgent::new().lock_manager("app");
    (Script::new(locks.clone()), locks.bucket().lock_manager())
}

fn is_free(other: &LockManager, name: &str) -> bool {
    other.lock(name).if_available().blocking().unwrap().is_some()
}

/// A callback that returns its argument.
fn identity() -> Value {
    Value::function(|_, lock| Ok(lock))
}

/// A callback that returns a promise, and the same promise for the test.
fn keeping() -> (Value, Promise) {
    let kept = Promise::new();
    let returned = kept.clone();
    (Value::function(move |_, _| Ok(Value::Promise(returned.clone()))), kept)
}

fn options<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    Value::object(members)
}

const YES: Value = Value::Boolean(true);

/// A waker that counts its calls.
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
        // The wakers that told of the grants also tell of the losses.
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
fn a_signal_aborts_until_the_callback_is_called_and_keeps_nothing_then() {
    let (mut script, other) = start();
    let signal = Rc::new(Signal::default());
    let with_signal = options([("signal", Value::Signal(Rc::clone(&signal)))]);
    let (callback, kept) = keeping();
    let held = script.request(&["db".into(), with_signal.clone(), callback]).unwrap();
    let algorithms = signal.algorithms();
    script.run().unwrap();
    assert!(signal.algorithms().is_empty());
    // A late call of the algorithm by an engine does not abort the request either.
    let realm = script.realm.clone();
    realm.abort(&mut script, algorithms[0], "late".into()).unwrap();
    assert!(!is_free(&other, "db"));
    let waits = script.request(&["db".into(), with_signal.clone(), identity()]).unwrap();
    // This request is granted, and its callback is not yet called.
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

    // The callback ends before a task reports the loss of the lock.
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
    // The three calls make the two lists and the object with both. Each of them fails in turn, as
    // if memory were short.
    for call in 1..=3 {
        let (mut script, _other) = start();
        let asked = script.query().unwrap();
        script.throw_at(call);
        script.run().unwrap();
        assert_eq!(asked.rejection().as_deref(), Some("as planned"));
    }
}
