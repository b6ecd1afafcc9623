//! A command that takes long to end.

use std::{
    env,
    fs::{self, File},
    os::fd::{FromRawFd, OwnedFd},
    path::Path,
    process, thread,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit},
};

use crate::{
    sandbox::{Sandbox, eventually, finish, write},
    worker,
};

/// How many files the slow command has open.
const MANY: u64 = 20_000;

/// The role of a command that has a file locked, and so many others open that it takes a while to
/// close them. Its hold on navlock's lock is the first to go.
#[allow(unsafe_code, reason = "no value owns the descriptor that was inherited")]
pub(crate) fn hold(words: &[&str]) {
    let witness = File::create(words[0]).unwrap();
    flock(&witness, FlockOperation::NonBlockingLockExclusive).unwrap();
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let most = maximum.map_or(MANY, |maximum| MANY.min(maximum.saturating_sub(100)));
    let many: Vec<_> = (0..most).map(|_| File::open("/dev/null").unwrap()).collect();
    let hold = fs::read_dir("/proc/self/fd").unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let is_hold =
            fs::read_link(&path).is_ok_and(|to| to.extension().is_some_and(|e| e == "locks"));
        is_hold.then(|| path.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap())
    });
    // The kernel lets go of them from the last to the first.
    // SAFETY: It was inherited, nothing else in this program knows of it, and it is closed once.
    let hold = unsafe { OwnedFd::from_raw_fd(hold.unwrap()) };
    let last = hold.try_clone().unwrap();
    drop(hold);
    write(Path::new(words[1]), &format!("{}\n", process::id()));
    while !many.is_empty() {
        thread::park();
    }
    drop((last, witness));
}

#[test]
fn a_command_whose_wrapper_was_killed_has_ended_when_the_next_begins() {
    let sandbox = Sandbox::new();
    let (witness, ready) = (sandbox.path("witness"), sandbox.path("ready"));
    let mut command = sandbox.navlock(&["run", "db"]);
    command.arg(env::current_exe().unwrap()).args(worker::PLAY);
    let words = format!("{} {}", witness.display(), ready.display());
    worker::cast(&mut command, "slow_exit::hold", &words);
    let mut wrapper = command.spawn().unwrap();
    let mut command_pid = String::new();
    eventually("it has all its files", || {
        command_pid = fs::read_to_string(&ready).unwrap_or_default();
        command_pid.ends_with('\n')
    });
    wrapper.kill().unwrap();
    wrapper.wait().unwrap();
    let next = sandbox.start(&["run", "-w", "20", "db", "flock", "-n", "witness", "true"]);
    eventually("it waits", || sandbox.query().len() == 2);
    kill_process(Pid::from_raw(command_pid.trim().parse().unwrap()).unwrap(), Signal::KILL)
        .unwrap();
    let next = finish(next);
    assert!(next.status.success(), "{next:?}");
}
