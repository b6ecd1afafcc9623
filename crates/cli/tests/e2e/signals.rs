//! Signals: those that were ignored when `navlock` was started, and those that `navlock` watches for.

use std::{env, process::Stdio};

use rustix::process::Signal;

#[cfg(target_os = "linux")]
use crate::broker::in_namespaces;
use crate::sandbox::{NAVLOCK, Sandbox, finish};

#[test]
fn an_ignored_signal_stays_ignored_for_navlock_and_for_the_command() {
    let sandbox = Sandbox::new();
    for signal in ["HUP", "INT", "QUIT", "TERM"] {
        let script = format!(
            "trap '' {signal}; exec \"$NAVLOCK\" run db \
             sh -c 'kill -{signal} $$; kill -{signal} $PPID; exit 5'"
        );
        let status = sandbox.program("sh").args(["-c", &script]).status().unwrap();
        assert_eq!(status.code(), Some(5), "{signal}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_ignores_no_more_and_no_less_than_navlock_did() {
    let sandbox = Sandbox::new();
    let ignored = |signals: &str, under: &[&str]| {
        let mut command = sandbox.program("env");
        command.arg(signals).args(under).args(["grep", "SigIgn:", "/proc/self/status"]);
        let output = finish(command.stdout(Stdio::piped()).spawn().unwrap());
        let said = output.stdout;
        let mask = said.trim().rsplit('\t').next().unwrap();
        // glibc has 32 and 33 for itself.
        u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31)
    };
    for signals in ["--ignore-signal=PIPE,USR1,CHLD", "--default-signal"] {
        let without = ignored(signals, &[]);
        assert_eq!(ignored(signals, &[NAVLOCK, "run", "db"]), without, "{signals}");
        assert_eq!(ignored(signals, &[NAVLOCK, "run", "-F", "db"]), without, "{signals}");
    }
}

#[test]
fn a_wait_goes_on_after_a_signal_that_was_ignored() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let script = "trap '' HUP; exec \"$NAVLOCK\" run db true";
    let mut waiter = sandbox.program("sh").args(["-c", script]).spawn().unwrap();
    crate::sandbox::eventually("it waits", || sandbox.query().len() == 2);
    rustix::process::kill_process(rustix::process::Pid::from_child(&waiter), Signal::HUP).unwrap();
    holder.release();
    assert!(crate::sandbox::wait(&mut waiter).success());
}

const NEEDS_SIGNALS: &str = "exit::a_signal_to_the_wrapper_reaches_the_command_which_decides";

/// This very program, started as `nohup … &` starts it, passes a test that needs these signals.
#[test]
fn these_tests_pass_where_they_are_started_with_signals_ignored() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.program("sh");
    command
        .args(["-c", "trap '' HUP INT QUIT TERM; exec \"$0\" --exact \"$1\""])
        .arg(env::current_exe().unwrap())
        .arg(NEEDS_SIGNALS)
        .current_dir(env::current_dir().unwrap())
        .stdout(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    let said = output.stdout;
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// There the process group and the session are led by processes that have no number, as in a container that
/// somebody has entered.
#[test]
#[cfg(target_os = "linux")]
fn these_tests_pass_in_a_namespace_that_was_entered() {
    let sandbox = Sandbox::new();
    let [here, program] = [env::current_dir(), env::current_exe()].map(Result::unwrap);
    let [here, program] = [here.display(), program.display()];
    let script = format!("cd '{here}' && '{program}' --exact {NEEDS_SIGNALS}");
    let Some(said) = in_namespaces(&sandbox, &["-rpf", "--mount-proc"], &script) else { return };
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_wrapper_starts_no_thread_for_a_command_that_runs() {
    let sandbox = Sandbox::new();
    // Another process starts the broker, because the process that starts it also waits for the broker's end.
    sandbox.query();
    // The command counts threads when it gets a signal, which the wrapper watches for and passes on.
    let script =
        "trap 'ls /proc/$PPID/task | wc -l; exit 0' INT; echo $$; while :; do sleep 0.01; done";
    // With `-q` the wrapper does not say what it waits for: another thread would do that, after a second.
    let mut holder = sandbox.hold_by(&["-q", "db"], script);
    holder.signal(Signal::INT);
    assert_eq!(holder.line().trim(), "1");
    assert!(holder.ended().success());
}
