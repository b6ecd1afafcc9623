//! A bucket with more in it than is shown at once.

use std::{
    pin::Pin,
    task::{Context, Waker},
};

use navlock_core::{LockFuture, LockGuard, LockManager, UserAgent, blocking::block_on_timeout};
use serde_json::Value;

use super::{
    machines_of,
    server::{DEADLINE, namespace, shared},
};
use crate::{
    deadlock::{DEADLOCK, Participant},
    sandbox::{Output, Sandbox, eventually},
};

/// More requests than are shown of a bucket, and fewer than are shown of a name.
const MANY: usize = 15_000;

/// Requests for the first name of the bucket, from a machine of their own.
struct Crowd {
    _waiting: Vec<Pin<Box<LockFuture<'static, LockGuard>>>>,
    _held: LockGuard,
    _machine: UserAgent,
}

impl Crowd {
    /// Makes the requests. All of them wait when this returns.
    fn gather(namespace: &str, name: &str) -> Self {
        let machine = shared().machine(|options| options.namespace(namespace));
        let locks: LockManager = machine.lock_manager("default");
        let held = block_on_timeout(locks.lock(name), DEADLINE).unwrap().unwrap();
        let request = || Box::pin(locks.lock(name).into_owned());
        let mut waiting: Vec<_> = std::iter::repeat_with(request).take(MANY).collect();
        let mut context = Context::from_waker(Waker::noop());
        for request in &mut waiting {
            assert!(request.as_mut().poll(&mut context).is_pending());
        }
        eventually("they wait", || {
            let inspection =
                block_on_timeout(locks.inspect(Some(name.try_into().unwrap())), DEADLINE);
            // On a busy machine an answer may take longer than its limit.
            inspection.unwrap().is_ok_and(|inspection| inspection.pending.len() == MANY)
        });
        Self { _waiting: waiting, _held: held, _machine: machine }
    }
}

/// What `query` writes, and what it says on its error stream.
fn asked(machine: &Sandbox, arguments: &[&str]) -> (Vec<Value>, String) {
    // The output is read while it is written, because there may be much of it.
    let output = Output::of(&mut machine.navlock(&[&["query", "--json"], arguments].concat()));
    assert!(output.status.success(), "{output:?}");
    let rows = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (rows, output.stderr)
}

#[test]
fn a_query_tells_how_much_it_leaves_out_and_shows_all_of_one_name() {
    let namespace = namespace();
    let _crowd = Crowd::gather(&namespace, "a crowd");
    let [machine] = machines_of(&shared().endpoint(), &namespace, "5");
    let mut ours = machine.hold(&["ours"]);
    for all in [&[][..], &["--all-buckets"]] {
        let (rows, said) = asked(&machine, all);
        let count = said.strip_prefix("navlock: ").and_then(|said| said.split_once(' ')).unwrap();
        let left_out: usize = count.0.parse().unwrap();
        assert_eq!(count.1, "more locks and requests are not shown; ask for one NAME\n");
        // A query of all buckets shows what this machine has too, which counts as left out all the same.
        let (ours, theirs): (Vec<&Value>, Vec<_>) =
            rows.iter().partition(|row| row["name"] == "ours");
        assert_eq!((ours.len(), theirs.len() + left_out), (all.len(), MANY + 2));
        assert!(rows.iter().all(|row| row["position"].is_null()), "where they stand is not known");
    }
    let (_, said) = asked(&machine, &["--tree"]);
    assert!(said.ends_with("more locks and requests are not shown; ask for one NAME\n"), "{said}");
    let (rows, said) = asked(&machine, &["a crowd"]);
    assert_eq!((rows.len(), &*said), (MANY + 1, ""));
    assert!((1..=MANY).all(|nth| rows[nth]["position"] == nth));
    let (rows, said) = asked(&machine, &["--all-buckets", "ours"]);
    assert_eq!((rows.len(), &*said), (1, ""));
    ours.let_go();
}

#[test]
fn commands_that_wait_for_each_other_are_told_so_whatever_else_is_in_the_bucket() {
    let namespace = namespace();
    let _crowd = Crowd::gather(&namespace, "a crowd");
    let machines: [Sandbox; 2] = machines_of(&shared().endpoint(), &namespace, "5");
    // On one machine, and then on two.
    for other in 0..2 {
        let mut first = Participant::new(&machines[0], &["x"], "$NAVLOCK run y true");
        let mut last = Participant::new(
            &machines[other],
            &["y"],
            "$NAVLOCK run --deadlock-exit-code 7 x true",
        );
        first.go();
        eventually("it waits", || asked(&machines[0], &["y"]).0.len() == 2);
        last.go();
        let (code, said) = last.end();
        assert_eq!(code, Some(7), "{said}");
        assert!(said.contains(DEADLOCK), "{said}");
        assert_eq!(first.end().0, Some(0));
    }
}
