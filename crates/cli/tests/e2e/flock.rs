//! What works as with flock(1), and what users are told of the differences.

use crate::sandbox::{Holder, Sandbox};

/// A holder that has become its command.
fn hold_without_fork(sandbox: &Sandbox, script: &str) -> Holder {
    let mut holder = Holder::start(sandbox.navlock(&["run", "-F", "db", "sh", "-c", script]));
    holder.begun();
    holder
}

#[test]
fn without_a_fork_it_becomes_the_command_which_holds_by_itself() {
    let sandbox = Sandbox::new();
    let script = "echo $$; echo $NAVLOCK_NAME-$NAVLOCK_FENCE; cat; exit 7";
    let mut holder = hold_without_fork(&sandbox, script);
    assert!(holder.is_its_own_command());
    assert!(holder.line().trim_start_matches("db-").parse::<u64>().is_ok());
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    // The broker knows it by its number and name.
    let shown = sandbox.written(&["query", "--json"]);
    let pid = format!("\"pid\":{},\"command\":\"sh\"", holder.command().as_raw_nonzero());
    assert!(shown.contains(&pid), "{shown}");
    // It keeps its lock when the broker is killed.
    sandbox.kill_broker();
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    holder.let_go();
    assert_eq!(holder.ended().code(), Some(7));
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
}

#[test]
fn without_a_fork_a_killed_command_frees_its_lock() {
    let sandbox = Sandbox::new();
    let holder = hold_without_fork(&sandbox, "echo $$; exec cat");
    let mut next = sandbox.queue(&["db"]);
    holder.kill_command();
    next.begun();
    next.release();
}

#[test]
fn without_a_fork_a_command_that_is_not_there_leaves_nothing_held() {
    let sandbox = Sandbox::new();
    for (code, program) in [(127, "no-such-program-here"), (126, "/")] {
        assert_eq!(sandbox.code(&["run", "-F", "db", program]), code);
        assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0, "{program}");
    }
    // These options promise what is so anyway, or what no process could keep.
    for option in ["-o", "--on-lost=term"] {
        assert_eq!(sandbox.code(&["run", "-F", option, "db", "true"]), 64);
    }
}

#[test]
fn an_option_that_only_flock_has_is_answered_with_the_way_to_do_it_here() {
    let sandbox = Sandbox::new();
    for (arguments, what) in [
        (&["-u", "9"][..], "there is no option '-u': a lock is held while a command runs"),
        (&["run", "-u", "9"], "there is no option '-u': a lock is held while a command runs"),
        (&["run", "--unlock", "9"], "give the work to 'navlock run NAME COMMAND'"),
        (&["run", "-u", "9"], "or take the lock with 'navlock hold'"),
        (&["9"], "a descriptor, as in 'flock 9', cannot be locked"),
        (&["9"], "use 'navlock hold --while-pid $$ NAME'"),
        (&["run", "9"], "a descriptor, as in 'flock 9', cannot be locked"),
        (&["run", "-n", "200"], "a descriptor, as in 'flock 200', cannot be locked"),
        (&["-n", "9"], "write 'navlock run -n … NAME COMMAND'"),
        (&["-x", "/tmp/file", "true"], "write 'navlock run -x … NAME COMMAND'"),
        (
            &["run", "--fcntl", "db", "true"],
            "navlock locks a name and not a file; leave the option out",
        ),
    ] {
        let output = sandbox.output(arguments);
        assert_eq!(output.code(), Some(64), "{arguments:?}");
        let said = output.stderr;
        assert!(said.contains(what) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}
