//! Who meets whom, and what they are told.

use std::io;

use navlock::blocking::block_on;

use super::*;
use crate::worker::{self, Worker, say};

#[test]
fn two_users_exclude_each_other_and_see_whose_the_lock_is() {
    let Some(machine) = Machine::new() else { return };
    let holder = machine.hold(ADA, &["db"]);
    assert_eq!(machine.code(BEA, &["run", "-n", "db", "true"]), 1);
    assert_eq!(machine.code(BEA, &["run", "-n", "other", "true"]), 0);
    let mut waiter = machine.queue(BEA, &["db"]);
    for user in [ADA, BEA, ROOT] {
        let rows = machine.query(user);
        let told = |row: &Value| [&row["state"], &row["name"], &row["user"]].map(Value::clone);
        let told: Vec<_> = rows.iter().map(told).collect();
        assert_eq!(told, [["held", "db", "uid 61001"], ["pending", "db", "uid 61002"]]);
    }
    let table = machine.written(BEA, &["query", "--system"]);
    assert!(table.contains("uid 61001") && table.contains("uid 61002"), "{table}");
    holder.release();
    waiter.begun();
    waiter.release();
}

#[test]
fn root_and_a_user_meet_and_so_do_the_brokers_user_and_others() {
    let Some(machine) = Machine::new() else { return };
    for (one, other) in [(ROOT, ADA), (ADA, ROOT), (BROKER, BEA)] {
        let holder = machine.hold(one, &["--system", "db"]);
        assert_eq!(machine.code(other, &["run", "-n", "db", "true"]), 1, "{one:?} {other:?}");
        holder.release();
        assert_eq!(machine.code(other, &["run", "-n", "db", "true"]), 0, "{one:?} {other:?}");
    }
}

#[test]
fn a_bucket_that_the_settings_give_to_several_users_is_shared_without_an_option() {
    let Some(machine) = Machine::new() else { return };
    // The directory of the machine's broker is where it is usually, in a view of the file system of their own.
    let script = r#"mount -t tmpfs none /run && mkdir /run/navlock-system && mount --bind "$0" /run/navlock-system &&
        uid=$1 && shift && gid=$1 && shift && exec setpriv --reuid "$uid" --regid "$gid" --clear-groups "$NAVLOCK" run -n --bucket "$@""#;
    let run = |user: User, bucket: &str, rest: &[&str]| {
        let own = machine.sandbox.path(&format!("own-{}", user.uid));
        let _ = fs::create_dir(&own);
        chown(&own, Some(user.uid), Some(user.gid)).unwrap();
        let config = own.join("config.toml");
        let socket = own.join("sock");
        let settings = format!("socket = {socket:?}\n[buckets.site]\nsystem = true\n");
        fs::write(&config, settings).unwrap();
        let mut command = machine.program(ROOT, "unshare");
        command.args(["--mount", "sh", "-c", script]).arg(machine.directory());
        command.args([&user.uid.to_string(), &user.gid.to_string(), bucket, "db"]).args(rest);
        command.env_remove("NAVLOCK_SYSTEM").env("NAVLOCK_CONFIG", &config);
        Output::of(&mut command)
    };
    let holder = machine.hold(ADA, &["--bucket", "site", "db"]);
    assert_eq!(run(BEA, "site", &["true"]).code(), Some(1));
    assert_eq!(run(BEA, "other", &["true"]).code(), Some(0));
    holder.release();
    // The command finds the bucket where it lives, and other buckets where they live.
    for (bucket, code) in [("site", 1), ("other", 0)] {
        let nested = ["sh", "-c", "\"$NAVLOCK\" run -n --bucket \"$1\" db true", "sh", bucket];
        assert_eq!(run(BEA, "site", &nested).code(), Some(code), "{bucket}");
    }
}

#[test]
fn shared_locks_of_several_users_are_held_at_once() {
    let Some(machine) = Machine::new() else { return };
    let readers = [ADA, BEA, ROOT].map(|user| machine.hold(user, &["--shared", "db"]));
    assert_eq!(machine.code(ADA, &["run", "-n", "db", "true"]), 1);
    readers.into_iter().for_each(Holder::release);
}

#[test]
fn who_is_not_in_the_group_is_told_so_with_its_name() {
    let Some(machine) = Machine::new() else { return };
    for arguments in [
        &["run", "db", "true"][..],
        &["hold", "--ttl", "5", "db"],
        &["wait", "db"],
        &["query"],
        &["query", "--tree"],
        &["query", "--all-buckets"],
        &["clients"],
        &["watch"],
        &["daemon", "status"],
        &["daemon", "stop"],
        &["daemon", "start"],
        &["daemon", "metrics"],
    ] {
        let output = machine.output(OUTSIDER, arguments);
        output.assert_says(69, "not allowed: only members of the group 61000 may use");
    }
    let doctor = machine.output(OUTSIDER, &["doctor", "--system"]);
    assert_eq!(doctor.code(), Some(1));
    assert!(doctor.stdout.contains("fail  place: not allowed"), "{doctor:?}");
}

#[test]
fn where_no_broker_runs_everybody_is_told_who_starts_it_and_nobody_does() {
    let Some(machine) = Machine::without_broker() else { return };
    chown(machine.directory(), Some(BROKER.uid), Some(GROUP)).unwrap();
    fs::set_permissions(machine.directory(), fs::Permissions::from_mode(0o750)).unwrap();
    let said = "no system broker runs";
    for arguments in [
        &["run", "db", "true"][..],
        &["hold", "--ttl", "5", "db"],
        &["query"],
        &["query", "--tree"],
        &["query", "--all-buckets"],
        &["clients"],
        &["inside", "db"],
        &["daemon", "start"],
        &["daemon", "metrics"],
    ] {
        for user in [ADA, ROOT] {
            machine.output(user, arguments).assert_says(69, said);
        }
    }
    let status = machine.output(ADA, &["daemon", "status"]);
    assert_eq!(status.code(), Some(69));
    assert!(status.stdout.contains(said), "{status:?}");
    let doctor = machine.output(ADA, &["doctor"]);
    assert!(doctor.stdout.contains(&format!("fail  broker: {said}")), "{doctor:?}");
    assert_eq!(machine.code(ADA, &["daemon", "stop"]), 0);
    // Without its directory it is the same.
    fs::remove_dir(machine.directory()).unwrap();
    machine.output(ADA, &["run", "db", "true"]).assert_says(69, said);
    machine.output(ADA, &["query", "--tree"]).assert_says(69, said);
}

#[test]
fn the_option_works_wherever_it_stands() {
    let Some(machine) = Machine::new() else { return };
    let holder = machine.hold(BEA, &["db"]);
    for line in [
        "--system run -n db true",
        "run --system -n db true",
        "run -n --system db true",
        "--system wait -n db",
        "hold -n --ttl 1 db --system",
        "inside --system db",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = machine.navlock(ADA, &words);
        // The option goes before this variable, which would name another broker.
        let output = Output::of(command.env("NAVLOCK_SOCKET", "/tmp/no-such-broker/sock"));
        assert_eq!(output.code(), Some(1), "{line}: {output:?}");
    }
    for line in
        ["query --system db", "--system query", "clients --system", "daemon status --system"]
    {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = machine.navlock(ADA, &words);
        let output = Output::of(command.env("NAVLOCK_SOCKET", "/tmp/no-such-broker/sock"));
        assert_eq!(output.code(), Some(0), "{line}: {output:?}");
    }
    let both = machine.output(ADA, &["query", "--system", "--socket", "/tmp/x/sock"]);
    both.assert_says(64, "--system and --socket name two brokers");
    let status = machine.written(ADA, &["daemon", "status", "--system"]);
    assert!(status.contains("uid 61000"), "{status}");
    let doctor = machine.written(ADA, &["doctor", "--system"]);
    assert!(doctor.contains("for the members of the group 61000"), "{doctor}");
    let evict = machine.output(ADA, &["evict", "--system", "--key", "x"]);
    evict.assert_says(64, "there is nothing to evict");
    holder.release();
}

#[test]
fn a_command_meets_the_broker_of_the_navlock_around_it() {
    let Some(machine) = Machine::new() else { return };
    let script = "\"$NAVLOCK\" inside db && ! \"$NAVLOCK\" run -n db true && env";
    let mut outer = machine.navlock(ADA, &["run", "--system", "db", "-c", script]);
    let output = Output::of(outer.env("NAVLOCK_SOCKET", "/tmp/no-such-broker/sock"));
    assert!(output.status.success(), "{output:?}");
    assert!(!output.stdout.contains("NAVLOCK_SOCKET="), "{output:?}");
}

#[test]
fn a_script_holds_a_lock_and_releases_it_and_nobody_else_can() {
    let Some(machine) = Machine::new() else { return };
    let hold = machine.written(ADA, &["hold", "--system", "--ttl", "1h", "db"]);
    let id = hold.split_whitespace().next().unwrap();
    assert_eq!(machine.code(BEA, &["run", "-n", "db", "true"]), 1);
    machine.output(BEA, &["release", "db"]).assert_says(1, "is held by no 'navlock hold' of this");
    assert_eq!(machine.code(BEA, &["release", id]), 1);
    assert_eq!(machine.code(ADA, &["extend", "--system", "db", "2h"]), 0);
    assert_eq!(machine.code(ADA, &["release", "--system", "db"]), 0);
    assert_eq!(machine.code(BEA, &["run", "-n", "db", "true"]), 0);
}

/// A program that holds a lock until its input ends.
pub(crate) fn holds(_: &[&str]) {
    let user_agent = block_on(navlock::system()).unwrap();
    let guard = user_agent.lock_manager("default").lock("db").blocking().unwrap();
    say("holds");
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(guard);
}

#[test]
fn a_program_in_rust_meets_the_commands_of_other_users() {
    let Some(machine) = Machine::new() else { return };
    let mut program = worker::program(&machine.sandbox, "users::holds", "");
    program.env_remove("NAVLOCK_SOCKET").env("NAVLOCK_SYSTEM", machine.directory());
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = program.stdin.take();
    let mut program = Worker::of(program);
    assert_eq!(program.read_line(), "holds");
    assert_eq!(machine.code(ADA, &["run", "-n", "db", "true"]), 1);
    drop(input);
    assert!(program.ended().success());
    assert_eq!(machine.code(ADA, &["run", "-n", "db", "true"]), 0);
}
