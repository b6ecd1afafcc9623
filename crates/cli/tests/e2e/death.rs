//! Who dies, and what becomes of the lock.

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

/// How many files a command has open that takes long to end.
const MANY: u64 = 20_000;

/// The role of a command that has a file locked, and so many others open that it takes a while to
/// close them. Its hold on navlock's lock is the first to go.
#[allow(unsafe_code, reason = "no value owns the descriptor that was inherited")]
pub(crate) fn hoarder(words: &[&str]) {
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
    worker::cast(&mut command, "death::hoarder", &words);
    let mut wrapper = command.spawn().unwrap();
    let mut hoarder = String::new();
    eventually("it has all its files", || {
        hoarder = fs::read_to_string(&ready).unwrap_or_default();
        hoarder.ends_with('\n')
    });
    wrapper.kill().unwrap();
    wrapper.wait().unwrap();
    let next = sandbox.start(&["run", "-w", "20", "db", "flock", "-n", "witness", "true"]);
    eventually("it waits", || sandbox.query().len() == 2);
    kill_process(Pid::from_raw(hoarder.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    let next = finish(next);
    assert!(next.status.success(), "{next:?}");
}

#[test]
fn when_a_holder_is_killed_with_its_command_the_next_has_the_lock() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let mut waiter = sandbox.queue(&["db"]);
    holder.kill_wrapper();
    holder.kill_command();
    waiter.begun();
    waiter.release();
}

#[test]
fn when_only_the_wrapper_is_killed_the_command_keeps_the_lock_until_it_ends() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let mut waiter = sandbox.queue(&["db"]);
    holder.kill_wrapper();
    // Two more round trips through the broker: it has had time to notice, were there anything.
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    assert_eq!(sandbox.query(), ["held db exclusive", "pending db exclusive"]);
    holder.let_go();
    waiter.begun();
    waiter.release();
}

#[test]
fn a_command_s_children_in_the_background_do_not_keep_its_lock() {
    let sandbox = Sandbox::new();
    let mut script = sandbox.program("sh");
    // The child reads what nobody writes, until this test lets go of it.
    let mut wrapper = script
        .args(["-c", "\"$NAVLOCK\" run db sh -c 'cat <&3 & exit 0' 3<&0 </dev/null"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    assert!(crate::sandbox::wait(&mut wrapper).success());
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0);
}

#[test]
fn a_waiter_that_is_killed_is_gone_from_the_queue() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["-s", "db"]);
    let mut writer = sandbox.queue(&["db"]);
    let mut reader = sandbox.queue(&["-s", "db"]);
    writer.kill_wrapper();
    // Who only waited behind it does not any more.
    reader.begun();
    assert_eq!(sandbox.query(), ["held db shared", "held db shared"]);
    reader.release();
    holder.release();
}

#[test]
fn a_signal_while_waiting_ends_the_wait() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut waiter = sandbox.queue(&["db"]);
    waiter.signal(Signal::INT);
    let status = waiter.ended();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    eventually("it is gone", || sandbox.query().len() == 1);
    holder.release();
}

#[test]
fn when_the_broker_is_killed_and_cannot_come_back_the_command_is_ended_for_its_lost_lock() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let waiter = sandbox.start(&["run", "db", "true"]);
    eventually("it waits", || sandbox.query().len() == 2);
    let broker = sandbox.broker().unwrap();
    sandbox.hide();
    kill_process(broker, Signal::KILL).unwrap();
    assert_eq!(holder.ended().code(), Some(75));
    let waiter = crate::sandbox::finish(waiter);
    assert_eq!(waiter.status.code(), Some(69));
    let said = String::from_utf8(waiter.stderr).unwrap();
    assert!(said.contains("cannot reach the broker at"), "{said}");
}

#[test]
fn a_command_that_is_not_to_hold_the_lock_by_itself_does_not() {
    let sandbox = Sandbox::new();
    for flag in ["-o", "--close"] {
        let mut holder = sandbox.hold(&[flag, "db"]);
        let mut waiter = sandbox.queue(&["db"]);
        holder.kill_wrapper();
        // The command is still there.
        waiter.begun();
        assert!(rustix::process::test_kill_process(holder.command()).is_ok());
        waiter.release();
    }
}
