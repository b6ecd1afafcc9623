//! Commands that take the place of others.

use rustix::process::{Signal, kill_process};

use crate::{
    sandbox::{Sandbox, finish, wait},
    worker::{self, Worker},
};

/// Has the kernel's lock of the file `oracle` as long as it works, and starts a process that has it as well.
/// Neither ends by TERM.
const WORK: &str = "exec 9>oracle; flock -n 9 || exit 1; trap '' TERM; echo $$; \
                    sh -c 'trap \"\" TERM; while :; do sleep 0.05; done'; true";

/// Takes the place of who holds `db`. Fails if anybody works on.
const REPLACE: [&str; 9] =
    ["run", "--replace", "--grace", "0.2", "db", "flock", "-n", "oracle", "true"];

#[test]
fn nobody_runs_beside_the_one_who_is_replaced() {
    for is_stopped in [false, true] {
        let sandbox = Sandbox::new();
        let mut holder = sandbox.hold_by(&["--grace", "0.2", "db"], WORK);
        sandbox.know(&mut holder);
        if is_stopped {
            kill_process(holder.wrapper(), Signal::STOP).unwrap();
        }
        sandbox.output(&REPLACE).assert_says(0, "is told to end, and is waited for");
        assert_eq!(holder.ended().code(), Some(137), "{is_stopped}");
    }
}

#[test]
fn a_command_without_a_navlock_beside_it_is_replaced() {
    let script = "exec 9>oracle; flock -n 9; echo $$; exec sleep 600";
    for arguments in [&["db"][..], &["-F", "db"]] {
        let sandbox = Sandbox::new();
        let mut holder = sandbox.hold_by(arguments, script);
        sandbox.know(&mut holder);
        if arguments[0] != "-F" {
            holder.kill_wrapper();
        }
        assert_eq!(sandbox.code(&REPLACE), 0, "{arguments:?}");
    }
}

#[test]
fn who_is_granted_the_lock_in_between_is_replaced_as_well() {
    let sandbox = Sandbox::new();
    let script = "exec 9>oracle; flock -n 9; echo $$; exec sleep 600";
    let _holder = sandbox.hold_by(&["db"], script);
    let between = sandbox.start(&["run", "db", "sleep", "600"]);
    crate::sandbox::eventually("it waits", || sandbox.pending() == 1);
    assert_eq!(sandbox.code(&REPLACE), 0);
    // Its command may not have begun by then.
    assert!(matches!(finish(between).code(), Some(143) | None));
}

#[test]
fn what_is_no_command_of_navlock_is_left_alone() {
    let sandbox = Sandbox::new();
    let said = "navlock: \"db\": --replace ends commands of 'navlock run' on this machine";
    let script = "exec sleep 600".to_owned();
    let mut keeps_for = sandbox.program("sh").args(["-c", &script]).spawn().unwrap();
    let number = keeps_for.id().to_string();
    for until in [["--ttl", "600"], ["--while-pid", &number]] {
        let hold = sandbox.written(&["hold", until[0], until[1], "db"]);
        sandbox.output(&REPLACE).assert_says(1, said);
        assert_eq!(sandbox.code(&["release", hold.lines().next().unwrap()]), 0);
    }
    keeps_for.kill().unwrap();
    keeps_for.wait().unwrap();
    let mut holder = Worker::start(&sandbox, "replaced::holds", "");
    assert_eq!(holder.read_line(), "held");
    sandbox.output(&REPLACE).assert_says(1, said);
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    let mut free = sandbox.start(&["run", "--replace", "free", "true"]);
    assert_eq!(wait(&mut free).code(), Some(0));
}

/// Holds `db` until it is killed.
pub(crate) fn holds(_: &[&str]) {
    let _guard = worker::locks().lock("db").blocking().unwrap();
    worker::say("held");
    std::thread::park();
}
