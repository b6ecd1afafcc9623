//! What a process inherits must not change what `navlock` does.

use std::process::Stdio;

use crate::sandbox::{Sandbox, finish};

/// Runs a script in a shell. Returns what it printed, once no process can print any more.
fn shell(sandbox: &Sandbox, script: &str) -> String {
    let mut command = sandbox.program("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn a_broker_keeps_no_descriptor_of_whoever_started_it() {
    let sandbox = Sandbox::new();
    // The shell ends with the last writer, which must not be the broker.
    let script = "out=$(exec 3>&1; \"$NAVLOCK\" run a -- echo ran) && echo $out";
    assert_eq!(shell(&sandbox, script), "ran\n");
    assert!(sandbox.broker().is_some());
}

#[test]
fn a_broker_started_under_a_lock_does_not_keep_that_lock() {
    let (outer, inner) = (Sandbox::new(), Sandbox::new());
    let mut command = outer.navlock(&["run", "a", "--", "sh", "-c"]);
    // The wrapper is killed. From then on the lock is its command's, and ends with the command.
    let script = "\"$NAVLOCK\" run --socket \"$0\" b true; kill -KILL $PPID";
    let killed = command.arg(script).arg(inner.socket()).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed), Some(9));
    assert!(inner.broker().is_some());
    assert_eq!(outer.code(&["run", "-w", "20", "a", "true"]), 0);
}

#[test]
fn the_command_s_end_is_noticed_whatever_becomes_of_sigchld() {
    let sandbox = Sandbox::new();
    for how in ["--block-signal=CHLD", "--ignore-signal=CHLD"] {
        let mut command = sandbox.program("env");
        command.args([how, crate::sandbox::NAVLOCK, "run", "db", "sh", "-c", "exit 7"]);
        let output = finish(command.stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(output.code(), Some(7), "{how}: {output:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_holds_its_lock_whatever_descriptors_its_script_takes() {
    let sandbox = Sandbox::new();
    // First the descriptors that scripts take by hand, then all below those of shells.
    let takes = "exec 3>&1 13>/dev/null 200>/dev/null; \
                 for fd in {10..250}; do eval \"exec $fd>/dev/null\"; done 2>&-; \
                 echo $$; exec 1>&3; exec cat";
    for limit in ["", "ulimit -n 300;", "ulimit -n 24;"] {
        let holds = |command: std::process::Command| {
            let mut holder = crate::sandbox::Holder::start(command);
            holder.begun();
            holder.kill_wrapper();
            assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1, "{limit}");
            holder.kill_command();
            assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0, "{limit}");
        };
        let takes =
            if limit.ends_with("24;") { "exec 13>/dev/null; echo $$; exec cat" } else { takes };
        let mut command = sandbox.program("bash");
        let script = format!("{limit} exec \"$NAVLOCK\" run db bash -c \"$0\"");
        command.args(["-c", &script, takes]);
        holds(command);
    }
}
