//! One of several names, and names in different modes.

use crate::sandbox::{Sandbox, eventually, finish};

/// The names from which a command takes one.
const ANY: [&str; 8] = ["run", "--any", "-l", "db-1", "-l", "db-2", "-l", "db-3"];

#[test]
fn each_command_has_one_of_the_names_and_the_last_has_the_one_that_is_free_first() {
    let sandbox = Sandbox::new();
    let arguments = &ANY[1..];
    let tells = "echo $$; echo \"$NAVLOCK_NAME\"; exec cat";
    let mut holders: Vec<_> = (0..3).map(|_| sandbox.hold_by(arguments, tells)).collect();
    for (holder, name) in holders.iter_mut().zip(["db-1", "db-2", "db-3"]) {
        assert_eq!(holder.line(), name);
    }
    let none = sandbox.code(&[&ANY[..], &["-n", "true"]].concat());
    assert_eq!(none, 1);
    let last = sandbox.start(&[&ANY[..], &["sh", "-c", "echo \"$NAVLOCK_NAME\""]].concat());
    eventually("it waits for each", || sandbox.pending() == 3);
    holders.remove(1).release();
    let output = finish(last);
    assert_eq!((output.code(), &*output.stdout), (Some(0), "db-2\n"), "{output:?}");
    assert_eq!(sandbox.pending(), 0);
}

#[test]
fn each_name_is_held_in_the_mode_before_it() {
    let sandbox = Sandbox::new();
    let modes = ["-s", "-l", "rates", "-x", "-l", "account"];
    let tells = "echo $$; echo $NAVLOCK_MODE; exec cat";
    let mut holder = sandbox.hold_by(&modes, tells);
    assert_eq!(holder.line(), "shared exclusive");
    assert_eq!(sandbox.code(&["run", "-n", "-s", "rates", "true"]), 0);
    assert_eq!(sandbox.code(&["run", "-n", "rates", "true"]), 1);
    assert_eq!(sandbox.code(&["run", "-n", "-s", "account", "true"]), 1);
    holder.let_go();
    holder.ended();
    let hold = sandbox.written(&[&["hold", "--ttl", "60"], &modes[..]].concat());
    assert_eq!(sandbox.code(&["run", "-n", "-s", "rates", "true"]), 0);
    assert_eq!(sandbox.code(&["run", "-n", "-s", "account", "true"]), 1);
    assert_eq!(sandbox.code(&["release", hold.lines().next().unwrap()]), 0);
}
