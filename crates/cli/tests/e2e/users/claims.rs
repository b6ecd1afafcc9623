//! What a client says that it has from an earlier broker, which need not be so.

use navlock_engine::{FencingToken, Mode, RequestId, RequestKind};
use navlock_wire::{ClientKey, FromDaemon, ToDaemon};

use super::{
    raw::{Raw, greeting, key, open_agent, request},
    *,
};

const AGENT: [u8; 16] = [9; 16];

/// A claim of an exclusive lock.
fn claim(serial: u64, name: &str, token: FencingToken) -> ToDaemon {
    ToDaemon::ClaimLock {
        agent: 0,
        request: RequestId::from_parts(0, serial),
        name: name.try_into().unwrap(),
        mode: Mode::Exclusive,
        token,
        since: 0,
    }
}

/// What becomes of the claims of a client that comes back: which requests it is told that it has lost. `None` if the
/// broker hangs up.
fn come_back(
    machine: &Machine,
    user: User,
    client: ClientKey,
    agent: [u8; 16],
    claims: &[ToDaemon],
) -> Option<(Raw, Vec<u64>)> {
    let mut raw = Raw::connect(machine, user);
    let mut words = greeting(client, true).to_vec();
    words.push(open_agent(0, agent));
    words.extend_from_slice(claims);
    words.extend([ToDaemon::Claimed, ToDaemon::Query { query: 7, bucket: "default".into() }]);
    // The broker may hang up before it has read everything.
    let _ = raw.say(&words);
    let mut lost = Vec::new();
    loop {
        match raw.receive()? {
            FromDaemon::Lost { request, .. } => lost.push(request.to_parts().1),
            FromDaemon::Snapshot { query: 7, last: true, .. } => return Some((raw, lost)),
            FromDaemon::Welcome { .. } | FromDaemon::Settled | FromDaemon::Snapshot { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_next_broker_believes_what_was_granted_and_nothing_else() {
    let Some(mut machine) = Machine::new() else { return };
    let holder = machine.hold(ADA, &["db"]);
    let theirs = machine.query(BEA)[0]["fencingToken"].as_str().unwrap().parse();
    let theirs = FencingToken::new(theirs.unwrap());
    let mut raw = Raw::client(&machine, BEA, 1);
    raw.say(&[open_agent(0, AGENT)]).unwrap();
    let [kept, released] =
        [(0, "kept"), (1, "released")].map(|(serial, name)| raw.granted(serial, name));
    raw.say(&[ToDaemon::Finish { request: RequestId::from_parts(0, 1) }]).unwrap();
    eventually("it is released", || machine.query(ROOT).len() == 2);
    machine.kill_broker();
    machine.start_broker();
    let next = FencingToken::new(kept.get() + 1);
    let (again, lost) = come_back(
        &machine,
        BEA,
        key(BEA, 1),
        AGENT,
        &[
            // Of another user, of nobody, released before, with other tokens, and true.
            claim(10, "db", theirs),
            claim(11, "never", kept),
            claim(1, "released", released),
            claim(2, "released", released),
            claim(12, "kept", kept),
            claim(13, "kept-not", next),
            claim(0, "kept", kept),
        ],
    )
    .unwrap();
    assert_eq!(lost, [10, 11, 1, 2, 12, 13]);
    let rows = machine.query(ROOT);
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["db", "kept"]);
    assert_eq!(rows[0]["user"], "uid 61001");
    // It is believed once.
    machine.kill_broker();
    drop(again);
    holder.release();
}

#[test]
fn a_client_without_a_file_is_not_believed_whatever_it_claims() {
    let Some(mut machine) = Machine::new() else { return };
    let mut holder = machine.hold(ADA, &["db"]);
    machine.kill_broker();
    machine.start_broker();
    let claims =
        [claim(0, "db", FencingToken::new(u64::MAX >> 1)), claim(1, "x", FencingToken::new(1))];
    let come = come_back(&machine, BEA, key(BEA, 5), AGENT, &claims);
    assert!(come.is_none_or(|(_, lost)| lost == [0, 1]));
    assert_eq!(machine.code(BEA, &["run", "-w", "20", "x", "true"]), 0);
    assert_eq!(machine.code(BEA, &["run", "-w", "1", "db", "true"]), 1);
    assert!(!holder.has_ended());
    // A claim cannot make tokens run out, or go back.
    let (first, second) = (machine.fence(BEA, "token"), machine.fence(ADA, "token"));
    assert!(first < second && second < u64::MAX >> 2, "{first} {second}");
    holder.release();
}

#[test]
fn nobody_has_an_agent_of_another_users_id() {
    let Some(mut machine) = Machine::new() else { return };
    let holder = machine.hold(ADA, &["db"]);
    let id = machine.query(BEA)[0]["clientId"].as_str().unwrap().to_owned();
    let id: navlock::ClientId = id.parse().unwrap();
    for is_restarted in [false, true] {
        if is_restarted {
            machine.kill_broker();
            machine.start_broker();
        }
        let mut raw = Raw::connect(&machine, BEA);
        raw.say(&greeting(key(BEA, 2), false)).unwrap();
        let _ = raw.say(&[open_agent(0, id.to_bytes()), request(0, "y", RequestKind::Steal)]);
        raw.until_left();
        let come = come_back(
            &machine,
            BEA,
            key(BEA, 3),
            id.to_bytes(),
            &[claim(0, "db", FencingToken::new(1))],
        );
        assert!(come.is_none_or(|(_, lost)| lost == [0]));
        let rows = machine.query(ROOT);
        assert_eq!((rows.len(), &rows[0]["user"]), (1, &Value::from("uid 61001")));
    }
    holder.release();
}

#[test]
fn who_says_that_it_has_waited_longer_does_not_come_before_another_user() {
    let Some(mut machine) = Machine::new() else { return };
    let holder = machine.hold(ROOT, &["db"]);
    let mut ada = machine.queue(ADA, &["db"]);
    let mut bea = Raw::client(&machine, BEA, 1);
    bea.say(&[open_agent(0, AGENT)]).unwrap();
    machine.kill_broker();
    machine.start_broker();
    let waits = ToDaemon::ClaimRequest {
        agent: 0,
        request: RequestId::from_parts(0, 0),
        name: "db".try_into().unwrap(),
        kind: RequestKind::Wait(Mode::Exclusive),
        since: 0,
    };
    let come = come_back(&machine, BEA, key(BEA, 1), AGENT, &[waits]);
    eventually("all have come back", || machine.pending() == 2);
    holder.release();
    ada.begun();
    ada.release();
    drop(come);
}
