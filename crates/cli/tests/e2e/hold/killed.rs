//! Holds whose keeper is killed.

use std::{fs, process::Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::{Lines, Sandbox, eventually, wait};

const KEEPER: &str = "--keeper-of-a-hold";

impl Sandbox {
    /// The processes of this sandbox that have this argument.
    fn processes_of(&self, argument: &str) -> Vec<Pid> {
        let socket = self.path("sock");
        let is_one = |process: &fs::DirEntry| {
            let read = |of| fs::read(process.path().join(of)).unwrap_or_default();
            let has = |bytes: &[u8], text: &str| String::from_utf8_lossy(bytes).contains(text);
            has(&read("cmdline"), argument) && has(&read("environ"), socket.to_str().unwrap())
        };
        let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(is_one);
        let number = |process: fs::DirEntry| process.file_name().to_str()?.parse().ok();
        processes.filter_map(number).filter_map(Pid::from_raw).collect()
    }
}

#[test]
fn a_process_is_told_when_what_keeps_its_lock_is_killed() {
    let sandbox = Sandbox::new();
    let script = "trap 'echo told; exit' TERM
        \"$NAVLOCK\" hold -q --while-pid $$ --on-lost term db >id
        echo held
        while kill -0 $PPID; do \"$NAVLOCK\" query >/dev/null; done";
    let mut command = sandbox.program("sh");
    let mut process = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(process.stdout.take().unwrap());
    assert_eq!(lines.next().as_deref(), Some("held"));
    let [keeper] = sandbox.processes_of(KEEPER)[..] else { panic!("no keeper") };
    kill_process(keeper, Signal::KILL).unwrap();
    assert_eq!(lines.next().as_deref(), Some("told"));
    wait(&mut process);
    eventually("its guard has ended", || sandbox.processes_of("--guard-of-a-hold").is_empty());
}

/// The process that is shown as the holder lives all the same.
#[test]
fn a_killed_keeper_of_another_process_has_freed_its_lock() {
    let sandbox = Sandbox::new();
    let us = std::process::id().to_string();
    sandbox.written(&["hold", "--while-pid", &us, "db"]);
    let [keeper] = sandbox.processes_of(KEEPER)[..] else { panic!("no keeper") };
    kill_process(keeper, Signal::KILL).unwrap();
    assert_eq!(sandbox.code(&["run", "-w", "10", "db", "true"]), 0);
}
