//! What only a browser has: locks that the page's own JavaScript has, names that it can spell,
//! refusals in its words; and what its reach does with wakers.

use std::{
    future::poll_fn,
    ptr,
    sync::{Arc, Mutex},
    task::{RawWaker, RawWakerVTable, Wake, Waker},
};

use navlock_browser::BrowserReach;
use navlock_core::{
    ClientId, Error, Lost, Mode, ResourceName, UserAgent,
    host::{Answer, Backend, Reach, RequestDetails, RequestKind},
};
use navlock_testkit::suite::{Test, Waiting, settle, soon};

pub(crate) const TESTS: &[Test] = &[
    (
        "own::a_name_of_the_empty_bucket_is_the_pages_own",
        a_name_of_the_empty_bucket_is_the_pages_own,
    ),
    ("own::a_lock_that_javascript_steals_is_lost", a_lock_that_javascript_steals_is_lost),
    ("own::no_name_of_a_bucket_reaches_another", no_name_of_a_bucket_reaches_another),
    (
        "own::names_with_lone_surrogates_are_told_as_they_are",
        names_with_lone_surrogates_are_told_as_they_are,
    ),
    ("own::only_who_has_a_lock_can_be_robbed_of_it", only_who_has_a_lock_can_be_robbed_of_it),
    (
        "own::a_waker_that_comes_back_when_it_is_dropped_finds_the_page_free",
        a_waker_that_comes_back_when_it_is_dropped_finds_the_page_free,
    ),
    ("own::termination_ends_requests_before_locks", termination_ends_requests_before_locks),
];

#[link(wasm_import_module = "./turn.mjs")]
unsafe extern "C" {
    /// JavaScript requests `db`.
    safe fn request_db();
    /// JavaScript steals `db`.
    safe fn steal_db();
    /// Whether JavaScript has `db`.
    safe fn has_db() -> u32;
    /// JavaScript releases `db`.
    safe fn release_db();
    /// From here on the browser refuses what it is asked for, with an `AbortError`.
    safe fn refuse();
}

fn a_name_of_the_empty_bucket_is_the_pages_own(user_agent: &UserAgent) {
    let locks = user_agent.lock_manager("");
    request_db();
    settle(&locks);
    assert_eq!(has_db(), 1);
    let waiting = Waiting::new(&locks, locks.lock("db"));
    let state = soon(locks.query()).expect("the page has locks");
    assert_eq!((state.held.len(), state.pending.len()), (1, 1));
    assert_eq!(state.held[0].client_id, state.pending[0].client_id);
    release_db();
    let guard = waiting.granted();

    // And the other way round.
    request_db();
    settle(&locks);
    assert_eq!(has_db(), 0);
    drop(guard);
    settle(&locks);
    assert_eq!(has_db(), 1);
    // The same name in another bucket is another lock.
    drop(soon(user_agent.lock_manager("app").lock("db")).expect("nobody has it"));
}

fn a_lock_that_javascript_steals_is_lost(user_agent: &UserAgent) {
    let locks = user_agent.lock_manager("");
    let guard = soon(locks.lock("db").shared()).expect("nobody has it");
    assert_eq!(guard.mode(), Mode::Shared);
    steal_db();
    soon(guard.lost());
    settle(&locks);
    assert_eq!(has_db(), 1);
}

fn no_name_of_a_bucket_reaches_another(user_agent: &UserAgent) {
    let [app, none] = ["app", ""].map(|bucket| user_agent.lock_manager(bucket));
    let _guard = soon(app.lock("db")).expect("nobody has it");
    let _other = soon(none.lock("navlock:3:app:db")).expect("it is another");
    for (locks, name) in [(app, "db"), (none, "navlock:3:app:db")] {
        let state = soon(locks.query()).expect("the page has locks");
        let names: Vec<_> = state.held.iter().map(|info| info.name.to_string()).collect();
        assert_eq!(names, [name]);
    }
}

/// Those that do not differ in them alone, which Chromium takes for the same.
fn names_with_lone_surrogates_are_told_as_they_are(user_agent: &UserAgent) {
    let locks = user_agent.lock_manager("");
    for units in
        [&[0xD800, 0x61][..], &[0xDFFF; 3], &[0xDC00, 0xD800], &[0xFFFD], &[0xD83D, 0xDE00]]
    {
        let name = ResourceName::from_utf16(units).expect("it is a name");
        let guard = soon(locks.lock(&name)).expect("nobody has it");
        assert_eq!(guard.name(), &name);
        assert!(soon(locks.lock(&name).if_available()).expect("it can be asked for").is_none());
    }
}

/// What the browser rejects otherwise is told in its words, with what it was asked for, whatever it
/// is called.
fn only_who_has_a_lock_can_be_robbed_of_it(user_agent: &UserAgent) {
    let locks = user_agent.lock_manager("");
    refuse();
    let refused = |what: &str| {
        Error::refused(format!("the browser refuses {what}: AbortError: it is shutting down"))
    };
    assert_eq!(soon(locks.lock("db")).unwrap_err(), refused("the lock"));
    let error = soon(locks.query()).unwrap_err();
    assert_eq!(error, refused("to say what is held and what is pending"));
}

/// As one does whose task has the last guard or request of a page in it.
fn a_waker_that_comes_back_when_it_is_dropped_finds_the_page_free(_: &UserAgent) {
    let bucket = open();
    let (agent, ended) =
        (bucket.open_agent(ClientId::random()), bucket.open_agent(ClientId::random()));
    bucket.terminate(ended);
    let request = |agent| {
        bucket.request(
            agent,
            &name("db"),
            RequestKind::Wait(Mode::Shared),
            RequestDetails::default(),
            &comes_back(),
        )
    };
    assert_eq!(request(ended).unwrap_err(), Error::Terminated);
    let (lock, _) = request(agent).expect("the agent has not ended");
    // Each takes the place of the one before.
    assert!(bucket.poll_request(lock, &comes_back()).is_pending());
    assert!(matches!(
        soon(poll_fn(|to| bucket.poll_request(lock, to.waker()))),
        Ok(Answer::Granted(_))
    ));
    assert!(bucket.poll_lost(lock, &comes_back()).is_pending());
    assert!(bucket.poll_lost(lock, &comes_back()).is_pending());
    bucket.finish(lock);
    assert!(bucket.poll_lost(lock, &comes_back()).is_ready());
}

/// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>. Chromium cannot tell the order by
/// what it grants (rule 1), so it is told by who hears of it first.
fn termination_ends_requests_before_locks(_: &UserAgent) {
    let bucket = open();
    let agent = bucket.open_agent(ClientId::random());
    let said = Arc::default();
    let request = |name_of: &str| {
        let waker = saying("request", &said);
        bucket.request(
            agent,
            &name(name_of),
            RequestKind::Wait(Mode::Exclusive),
            RequestDetails::default(),
            &waker,
        )
    };
    let (held, _) = request("db").expect("the agent has not ended");
    assert!(matches!(
        soon(poll_fn(|to| bucket.poll_request(held, to.waker()))),
        Ok(Answer::Granted(_))
    ));
    let (pending, _) = request("db").expect("the agent has not ended");
    assert!(bucket.poll_lost(held, &saying("lock", &said)).is_pending());

    bucket.terminate(agent);
    assert_eq!(*said.lock().expect("nobody panics with it"), ["request", "lock"]);
    assert_eq!(bucket.lost(held), Some(Lost::Terminated));
    let answer = soon(poll_fn(|to| bucket.poll_request(pending, to.waker())));
    assert_eq!(answer.unwrap_err(), Error::Terminated);
}

/// The seam itself.
fn open() -> Box<dyn Backend> {
    BrowserReach::open().expect("the page has locks").open_bucket("seam")
}

fn name(text: &str) -> ResourceName {
    text.parse().expect("it is a name")
}

/// A waker that says so when it is called.
fn saying(what: &'static str, said: &Arc<Mutex<Vec<&'static str>>>) -> Waker {
    struct Saying(&'static str, Arc<Mutex<Vec<&'static str>>>);
    impl Wake for Saying {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("nobody panics with it").push(self.0);
        }
    }
    Arc::new(Saying(what, Arc::clone(said))).into()
}

/// A waker that asks the page for something whenever it is dropped, each of its clones as well.
fn comes_back() -> Waker {
    static FUNCTIONS: RawWakerVTable = RawWakerVTable::new(
        |_| RawWaker::new(ptr::null(), &FUNCTIONS),
        |_| come_back(),
        |_| (),
        |_| come_back(),
    );
    fn come_back() {
        navlock_browser::browser().expect("the page has locks");
    }
    // SAFETY: the functions do not use the pointer, have nothing to keep, and may be called by any thread.
    unsafe { Waker::from_raw(RawWaker::new(ptr::null(), &FUNCTIONS)) }
}
