//! What a member of the group can do to others, which is to wait for them.

use navlock_core::look::LockId;
use navlock_engine::{FencingToken, Mode, RequestId, RequestKind};
use navlock_wire::{FromDaemon, ToDaemon};

use super::{
    raw::{Raw, hello, open_agent, request},
    *,
};

/// The lock of this name that another user holds, as everybody sees it, and its token.
fn seen(machine: &Machine, name: &str) -> LockId {
    let tree = machine.written(BEA, &["query", "--tree", "--json"]);
    let jams = tree.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<_> = jams.flat_map(|jam| jam["rows"].as_array().unwrap().clone()).collect();
    let is_it = |row: &&Value| row["name"] == name && row["state"] == "held";
    let row = rows.iter().find(is_it).unwrap();
    let [client_id, serial] = ["clientId", "serial"].map(|field| row[field].as_str().unwrap());
    LockId { client_id: client_id.parse().unwrap(), serial: serial.parse().unwrap() }
}

/// What nobody but its user is told.
const SECRETS: [&str; 3] = ["secret-why", "secret-meta", "secret-argument"];

/// A holder that says much of itself.
fn talkative(machine: &Machine, user: User) -> Holder {
    let words = ["run", "--show-args", "--why", "secret-why", "--meta", "key=secret-meta", "db"];
    let mut command = machine.navlock(user, &words);
    command.args(["sh", "-c", "echo $$; exec cat", "secret-argument"]);
    let mut holder = Holder::start(command);
    holder.begun();
    holder
}

#[test]
fn nobody_takes_a_lock_from_another_user() {
    let Some(machine) = Machine::new() else { return };
    let mut holder = machine.hold(ADA, &["db"]);
    for arguments in
        [&["run", "--steal", "db", "true"][..], &["hold", "--steal", "--ttl", "5", "db"]]
    {
        let output = machine.output(BEA, arguments);
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains("uid 61001"), "not told whose it is: {output:?}");
    }
    let replaced = machine.output(BEA, &["run", "--replace", "-w", "1", "db", "true"]);
    assert!(!replaced.status.success(), "{replaced:?}");
    assert_eq!(machine.code(BEA, &["run", "-n", "db", "true"]), 1);
    assert!(!holder.has_ended());
    assert_eq!(machine.query(BEA).len(), 1);
    // One's own, and root may.
    assert_eq!(machine.code(ADA, &["run", "--steal", "db", "true"]), 0);
    assert_eq!(holder.ended().code(), Some(75));
    let mut holder = machine.hold(ADA, &["db"]);
    assert_eq!(machine.code(ROOT, &["run", "--steal", "db", "true"]), 0);
    assert_eq!(holder.ended().code(), Some(75));
}

#[test]
fn a_shared_lock_of_ones_own_is_no_way_to_take_that_of_another_user() {
    let Some(machine) = Machine::new() else { return };
    let mut theirs = machine.hold(ADA, &["--shared", "db"]);
    let own = machine.hold(BEA, &["--shared", "db"]);
    assert_ne!(machine.code(BEA, &["run", "--steal", "db", "true"]), 0);
    assert!(!theirs.has_ended());
    theirs.let_go();
    assert!(theirs.ended().success());
    own.release();
}

#[test]
fn only_root_and_the_brokers_user_end_the_broker_and_change_what_it_logs() {
    let Some(mut machine) = Machine::new() else { return };
    for arguments in [&["daemon", "stop"][..], &["daemon", "log-level", "trace"]] {
        let output = machine.output(ADA, arguments);
        assert!(!output.status.success(), "{output:?}");
        assert!(output.stderr.contains("root"), "not told who may: {output:?}");
    }
    assert_eq!(machine.code(ADA, &["daemon", "status"]), 0);
    assert_eq!(machine.code(BROKER, &["daemon", "log-level", "info"]), 0);
    let holder = machine.hold(ADA, &["db"]);
    for user in [ROOT, BROKER] {
        let stopped = machine.written(user, &["daemon", "stop", "--system"]);
        assert!(stopped.contains("keep their locks"), "{stopped}");
        assert!(machine.broker.take().unwrap().wait().unwrap().success());
        machine.start_broker();
        assert_eq!(machine.code(BEA, &["run", "-w", "1", "db", "true"]), 1);
    }
    holder.release();
}

#[test]
fn nobody_reads_what_a_lock_is_for_or_the_arguments_of_another_users_command() {
    let Some(machine) = Machine::new() else { return };
    let holder = talkative(&machine, ADA);
    let waiter = machine.queue(ADA, &["--why", "secret-why", "--show-args", "db"]);
    let views = [
        &["query", "--json"][..],
        &["query"],
        &["query", "--all-buckets", "--json"],
        &["query", "--tree", "--json"],
        &["query", "--tree"],
        &["clients", "--json"],
        &["clients"],
    ];
    for arguments in views {
        let seen = machine.written(BEA, arguments);
        assert!(seen.contains("61001"), "{arguments:?}: {seen}");
        let told = SECRETS.iter().find(|secret| seen.contains(**secret));
        assert_eq!(told, None, "{arguments:?}: {seen}");
        if arguments[0] == "query" {
            for user in [ADA, ROOT, BROKER] {
                let seen = machine.written(user, arguments);
                assert!(seen.contains("secret-why"), "{user:?} {arguments:?}: {seen}");
            }
        }
    }
    // A message to who waits names the holder.
    let waits = machine.output(BEA, &["run", "-w", "1", "db", "true"]);
    assert!(waits.stderr.contains("61001"), "{waits:?}");
    assert!(!SECRETS.iter().any(|secret| waits.stderr.contains(secret)), "{waits:?}");
    drop(waiter);
    holder.release();
}

#[test]
fn who_watches_is_told_of_other_users_locks_and_not_what_they_are_for() {
    let Some(machine) = Machine::new() else { return };
    let first = machine.hold(ADA, &["first"]);
    let mut watch = machine.navlock(BEA, &["watch", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut lines = Lines::of(watch.stdout.take().unwrap());
    assert!(lines.any(|line| line.contains("first")));
    let holder = talkative(&machine, ADA);
    holder.release();
    let mut seen = String::new();
    for line in lines.by_ref() {
        seen += &line;
        if line.contains("\"released\"") {
            break;
        }
    }
    let _ = watch.kill();
    let _ = watch.wait();
    assert!(seen.contains("61001"), "{seen}");
    assert!(!SECRETS.iter().any(|secret| seen.contains(secret)), "{seen}");
    first.release();
}

#[test]
fn nobody_passes_for_another_user_by_what_a_program_says_of_itself() {
    let Some(machine) = Machine::new() else { return };
    // The names in the environment are of no account.
    let mut command = machine.navlock(BEA, &["run", "db"]);
    command.args(HELD).env("USER", "uid 61001").env("LOGNAME", "root").env("SUDO_UID", "0");
    let mut holder = Holder::start(command);
    holder.begun();
    let rows = machine.query(ADA);
    assert_eq!(rows[0]["user"], "uid 61002");
    let broken = holder.command().as_raw_nonzero().get();
    assert_eq!(rows[0]["pid"], broken);
    holder.release();
}

#[test]
fn nobody_takes_a_lock_from_another_user_by_hand_either() {
    let Some(machine) = Machine::new() else { return };
    let mut holder = machine.hold(ADA, &["db"]);
    let waiter = machine.queue(BEA, &["db"]);
    let token = machine.query(ROOT)[0]["fencingToken"].as_str().unwrap().parse().unwrap();
    let mut info = navlock::this_process();
    info.user = "root".to_owned();
    let steal = ToDaemon::Steal {
        query: 1,
        bucket: "default".to_owned(),
        name: "db".try_into().unwrap(),
        from: vec![(seen(&machine, "db"), FencingToken::new(token))],
        info,
    };
    let mut raw = Raw::connect(&machine, BEA);
    raw.say(&[hello(), steal]).unwrap();
    assert!(matches!(raw.receive(), Some(FromDaemon::Welcome { .. })));
    let answer = raw.receive();
    assert!(format!("{answer:?}").contains("Err"), "{answer:?}");
    let mut raw = Raw::client(&machine, BEA, 1);
    raw.say(&[open_agent(0, [8; 16]), request(0, "db", RequestKind::Steal)]).unwrap();
    let answer = raw.receive();
    assert!(matches!(answer, Some(FromDaemon::Failed { .. })), "{answer:?}");
    assert!(!holder.has_ended());
    assert_eq!(machine.query(ROOT)[0]["user"], "uid 61001");
    drop(waiter);
    holder.release();
}

/// What becomes of a command of a user that waits for the lock `a` inside the lock `y`, if somebody says that a request
/// for `y` was made inside `a`. This would be a deadlock.
fn told_of_nesting(machine: &Machine, liar: User) -> String {
    let holder = machine.hold(ADA, &["a"]);
    let script = "\"$NAVLOCK\" run --deadlock-exit-code 9 a true; echo $?";
    let mut nested = machine.navlock(ADA, &["run", "y", "-c", script]);
    let mut nested = nested.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    eventually("it waits", || machine.pending() == 1);
    let mut says = Raw::client(machine, liar, 1);
    let inside =
        ToDaemon::Inside { request: RequestId::from_parts(0, 0), lock: seen(machine, "a") };
    let wait = request(0, "y", RequestKind::Wait(Mode::Exclusive));
    says.say(&[open_agent(0, [1; 16]), wait, inside]).unwrap();
    eventually("it waits", || machine.pending() >= 2 || nested.try_wait().unwrap().is_some());
    // When a true deadlock was told, the other one would have been told as well.
    let [mut one, mut two] = [2, 3].map(|number: u8| {
        let mut raw = Raw::client(machine, BEA, number.into());
        raw.say(&[open_agent(0, [number; 16])]).unwrap();
        raw.granted(0, if number == 2 { "p" } else { "q" });
        raw
    });
    for (raw, name, number) in [(&mut one, "q", 2), (&mut two, "p", 3)] {
        let lock = LockId { client_id: navlock::ClientId::from_bytes([number; 16]), serial: 0 };
        let inside = ToDaemon::Inside { request: RequestId::from_parts(0, 1), lock };
        raw.say(&[request(1, name, RequestKind::Wait(Mode::Exclusive)), inside]).unwrap();
    }
    while !matches!(one.receive().unwrap(), FromDaemon::Deadlock { .. }) {}
    if liar.uid != ADA.uid {
        assert!(nested.try_wait().unwrap().is_none());
        drop(says);
        holder.release();
        return finish(nested).stdout;
    }
    let told = finish(nested).stdout;
    holder.release();
    told
}

#[test]
fn nobody_has_others_give_way_by_a_lie_about_the_lock_inside_which_a_request_was_made() {
    let Some(machine) = Machine::new() else { return };
    assert_eq!(told_of_nesting(&machine, BEA), "0\n");
    // A user can say that of locks of the same user.
    let Some(machine) = Machine::new() else { return };
    assert_eq!(told_of_nesting(&machine, ADA), "9\n");
}
