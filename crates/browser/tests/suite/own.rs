//! What only a browser has: locks that the page's own JavaScript has, and names that it can spell.

use navlock_core::{Mode, ResourceName, UserAgent};
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
