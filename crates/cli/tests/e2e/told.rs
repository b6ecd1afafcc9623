//! A command that a signal ends, and the processes that it has started.

use std::{
    fs::{self, File},
    process::{Command, Stdio},
};

use rustix::process::Signal;

use crate::{
    lost::has_ended,
    sandbox::{Holder, Sandbox, eventually, wait},
    worker::{self, Worker},
};

/// Goes on until its input ends, whatever signal comes.
const WORKER: &str =
    r#"sh -c 'trap "" HUP INT TERM; echo $$; >begun; while read line; do :; done'"#;

/// A holder of `db` whose command is this script, and whose own error stream is in the file `said`.
fn holder(sandbox: &Sandbox, arguments: &[&str], script: &str) -> Holder {
    let mut command = sandbox.navlock(&["run"]);
    command.args(arguments).args(["db", "sh", "-c", script]);
    command.stderr(File::create(sandbox.path("said")).unwrap());
    let mut holder = Holder::start(command);
    holder.begun();
    holder
}

/// Waits until the wrapper says that it waits for this process.
fn waits_for(sandbox: &Sandbox, holder: &Holder) {
    let worker = format!("sh[{}]", holder.command().as_raw_nonzero());
    eventually("it says for whom it waits", || {
        let said = fs::read_to_string(sandbox.path("said")).unwrap();
        said.contains(&format!("\"db\" stays held while {worker} works"))
    });
}

fn is_free(sandbox: &Sandbox) -> bool {
    sandbox.code(&["run", "-n", "db", "true"]) == 0
}

/// Whether the process works.
fn works(holder: &Holder) -> bool {
    !has_ended(holder.command())
}

#[test]
fn what_a_shell_has_started_keeps_the_lock_after_a_signal_to_the_wrapper() {
    let sandbox = Sandbox::new();
    // On INT, a shell waits for what it has started in the foreground.
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let script = format!("{WORKER}; true");
        let mut holder = holder(&sandbox, &["--grace", "1000"], &script);
        holder.signal(signal);
        waits_for(&sandbox, &holder);
        assert!(!is_free(&sandbox), "{signal:?}");
        holder.let_go();
        assert_eq!(holder.ended().code(), Some(code));
        assert!(!works(&holder) && is_free(&sandbox), "{signal:?}");
    }
}

#[test]
fn what_a_command_has_started_keeps_the_lock_after_a_signal_that_ends_the_command() {
    for signal in ["TERM", "KILL"] {
        let sandbox = Sandbox::new();
        let script = format!(
            "exec 3<&0; {WORKER} <&3 & until [ -e begun ]; do sleep 0.1; done; kill -{signal} $$"
        );
        let mut holder = holder(&sandbox, &["--grace", "1000"], &script);
        waits_for(&sandbox, &holder);
        assert!(!is_free(&sandbox), "{signal}");
        holder.let_go();
        holder.ended();
        assert!(!works(&holder) && is_free(&sandbox), "{signal}");
    }
}

#[test]
fn a_command_that_ends_well_after_a_signal_has_left_nothing_behind_on_purpose() {
    let sandbox = Sandbox::new();
    let script = format!("trap 'exit 7' TERM; exec 3<&0; {WORKER} <&3 & wait");
    let mut holder = holder(&sandbox, &["--grace", "1000"], &script);
    holder.signal(Signal::TERM);
    waits_for(&sandbox, &holder);
    assert!(!is_free(&sandbox));
    holder.let_go();
    assert_eq!(holder.ended().code(), Some(7));
}

#[test]
fn a_second_signal_kills_what_the_first_one_did_not_end() {
    let sandbox = Sandbox::new();
    let script = format!("{WORKER}; true");
    let mut holder = holder(&sandbox, &["--grace", "1000"], &script);
    holder.signal(Signal::TERM);
    waits_for(&sandbox, &holder);
    holder.signal(Signal::TERM);
    assert_eq!(holder.ended().code(), Some(143));
    assert!(!works(&holder) && is_free(&sandbox));
}

#[test]
fn the_end_of_the_grace_kills_what_the_signal_did_not_end() {
    let sandbox = Sandbox::new();
    let script = format!("{WORKER}; true");
    let mut holder = holder(&sandbox, &["--grace", "0.1"], &script);
    holder.signal(Signal::TERM);
    assert_eq!(holder.ended().code(), Some(143));
    assert!(!works(&holder) && is_free(&sandbox));
}

/// A process with this variable counts as not seen, as one that `/proc` hides does.
#[test]
fn what_cannot_be_seen_keeps_the_lock_after_a_signal_and_people_are_told() {
    let sandbox = Sandbox::new();
    let script = format!("exec 3<&0; NAVLOCK_STARTED_BY=1 {WORKER} <&3 & wait");
    let mut holder = holder(&sandbox, &[], &script);
    holder.signal(Signal::TERM);
    assert_eq!(holder.ended().code(), Some(143));
    let said = fs::read_to_string(sandbox.path("said")).unwrap();
    assert!(said.contains("\"db\" stays held while something works"), "{said}");
    assert!(works(&holder) && !is_free(&sandbox));
    holder.let_go();
    eventually("it is free", || is_free(&sandbox));
}

#[test]
fn a_signal_that_the_command_went_on_after_leaves_its_daemons_alone() {
    let sandbox = Sandbox::new();
    let on = "until [ -e on ]; do sleep 0.01; done; exit 5";
    let script = format!("trap 'echo told' HUP; exec 3<&0; {WORKER} <&3 & {on}");
    let mut holder = holder(&sandbox, &["--grace", "0"], &script);
    holder.signal(Signal::HUP);
    assert_eq!(holder.line(), "told");
    fs::write(sandbox.path("on"), "").unwrap();
    assert_eq!(holder.ended().code(), Some(5));
    assert!(works(&holder) && is_free(&sandbox));
}

#[test]
fn signals_of_all_kinds_reach_the_command_and_do_not_end_the_wrapper() {
    let sandbox = Sandbox::new();
    let signals =
        ["USR1", "USR2", "ALRM", "VTALRM", "PROF", "WINCH", "CONT", "URG", "PWR", "34", "64"];
    let traps = signals.map(|name| format!("trap 'echo {name}' {name}; ")).concat();
    let script = format!("{traps}echo $$; while :; do sleep 0.01; done");
    let mut holder = holder(&sandbox, &[], &script);
    for signal in signals {
        let wrapper = holder.wrapper().to_string();
        assert!(Command::new("kill").args(["-s", signal, &wrapper]).status().unwrap().success());
        assert_eq!(holder.line(), signal);
    }
    holder.kill_command();
    assert_eq!(holder.ended().code(), Some(137));
}

#[test]
fn a_script_without_a_first_line_for_the_kernel_is_run_by_the_shell() {
    use std::os::unix::fs::PermissionsExt;

    let sandbox = Sandbox::new();
    let script = sandbox.path("script");
    fs::write(&script, "echo \"$0 $1\"; exit 3\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for fork in [&[][..], &["-F"]] {
        for (name, path) in [("./script", "./script"), ("script", script.to_str().unwrap())] {
            let mut command = sandbox.navlock(&["run"]);
            command.args(fork).args(["db", name, "x y"]);
            let path_variable = std::env::var("PATH").unwrap();
            command.env("PATH", format!("{}:{path_variable}", sandbox.path("").display()));
            let output = crate::sandbox::Output::of(&mut command);
            assert_eq!(output.code(), Some(3), "{output:?}");
            assert!(output.stdout.trim_end().ends_with(" x y"), "{path}: {output:?}");
        }
    }
}

/// A program that uses the library has no handler for the signal that comes with such a limit.
#[test]
fn a_program_with_a_limit_of_the_size_of_files_has_its_locks() {
    let sandbox = Sandbox::new();
    sandbox.query();
    let mut program = sandbox.program("sh");
    program.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    worker::cast(program.args(worker::PLAY), "replaced::holds", "");
    let child = program.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut program = Worker::of(child);
    assert_eq!(program.read_line(), "held");
    program.signal(Signal::KILL);
    program.ended();
}

#[test]
fn a_limit_of_the_size_of_files_is_told_and_kills_nobody() {
    let sandbox = Sandbox::new();
    // The broker is there: it has no such limit.
    sandbox.query();
    let script = "ulimit -f 0; exec \"$NAVLOCK\" run db true";
    let mut command = sandbox.program("sh");
    command.args(["-c", script]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = wait(&mut child);
    let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(69), "{said}");
    assert!(said.contains("File too large"), "{said}");
}
