//! Removing the files by which commands hold their locks, at any moment, and killing the processes that then
//! are all that is left.

use std::{
    fs::{self, File},
    path::PathBuf,
};
#[cfg(target_os = "linux")]
use std::{
    future::Future,
    io::{Read, Write},
    pin::pin,
    process::Command,
    task::{Context, Waker},
};

#[cfg(target_os = "linux")]
use navlock::{AgentInfo, Place, UserAgent, blocking::block_on};
#[cfg(target_os = "linux")]
use rustix::process::Pid;
use rustix::process::{Signal, kill_process};

#[cfg(target_os = "linux")]
use crate::worker::{self, Worker};
use crate::{
    sandbox::{Holder, Sandbox, eventually},
    system::stop,
};

/// The files that say what commands hold.
fn testaments(sandbox: &Sandbox) -> Vec<PathBuf> {
    let files = fs::read_dir(sandbox.path("sock.clients")).unwrap().map(|file| file.unwrap());
    files.map(|file| file.path()).filter(|path| path.extension().is_some()).collect()
}

fn status_has(sandbox: &Sandbox, wanted: &str) -> bool {
    let output = sandbox.output(&["daemon", "status", "--json"]);
    output.stdout.contains(wanted)
}

#[test]
fn a_command_keeps_its_lock_when_its_navlock_has_come_to_another_broker_and_then_is_killed() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    sandbox.replace_broker();
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    sandbox.remove_clients();
    holder.kill_wrapper();
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    holder.kill_command();
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
}

#[test]
fn a_child_process_keeps_the_lock_when_its_command_and_the_navlock_are_killed() {
    for is_first in [true, false] {
        let sandbox = Sandbox::new();
        let (gate, mut holder) = hold_with_child(&sandbox);
        if !is_first {
            sandbox.replace_broker();
        }
        assert_eq!(sandbox.query(), ["held db exclusive"]);
        sandbox.remove_clients();
        holder.kill_wrapper();
        holder.kill_command();
        assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1, "{is_first}");
        drop(gate);
        assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0, "{is_first}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_keeps_its_lock_when_its_file_is_removed_and_then_its_navlock_and_the_broker_are_killed()
 {
    for is_killed_first in [true, false] {
        let sandbox = Sandbox::new();
        let mut holder = sandbox.hold(&["db"]);
        if is_killed_first {
            holder.kill_wrapper();
        }
        sandbox.remove_clients();
        eventually("the broker has noticed", || sandbox.path("sock.clients/removed").exists());
        if !is_killed_first {
            let broker = sandbox.broker().unwrap();
            kill_process(broker, Signal::STOP).unwrap();
            holder.kill_wrapper();
        }
        sandbox.kill_broker();
        let mut waiter = sandbox.queue(&["db"]);
        let both = ["held db exclusive", "pending db exclusive"];
        eventually("the command holds it", || sandbox.query() == both);
        // The next broker but one finds the file as well.
        sandbox.replace_broker();
        eventually("the command holds it still", || sandbox.query() == both);
        holder.kill_command();
        waiter.begun();
        waiter.release();
        sandbox.kill_broker();
        assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
        assert!(!sandbox.path("sock.clients/removed").exists(), "the next one looks again");
    }
}

#[test]
fn clients_of_whom_only_the_files_are_removed_make_them_anew_and_lose_nothing() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let mut waiter = sandbox.queue(&["db"]);
    let clients = sandbox.path("sock.clients");
    let files = || {
        let files = fs::read_dir(&clients).unwrap().map(|file| file.unwrap().path());
        files.collect::<Vec<_>>()
    };
    for file in files() {
        fs::remove_file(file).unwrap();
    }
    eventually("both are known again", || {
        files().iter().filter(|file| file.extension().is_none()).count() == 2
    });
    sandbox.replace_broker();
    assert_eq!(sandbox.query(), ["held db exclusive", "pending db exclusive"]);
    holder.let_go();
    assert!(holder.ended().success());
    waiter.begun();
    waiter.release();
}

/// A holder whose command has started a process that ends with the file.
fn hold_with_child(sandbox: &Sandbox) -> (File, Holder) {
    let gate = File::options().read(true).write(true).open(sandbox.pipe("gate")).unwrap();
    let script = "cat gate >/dev/null 2>&1 & echo $$; exec cat";
    (gate, sandbox.hold_by(&["db"], script))
}

/// Has a holder be granted that the broker does not hear until the holder's files are removed.
#[cfg(target_os = "linux")]
fn a_holder_not_heard_yet(sandbox: &Sandbox, request: &[&str]) -> Holder {
    let mut first = sandbox.hold(&["db"]);
    let mut next = sandbox.queue(request);
    next.stop();
    first.let_go();
    assert!(first.ended().success());
    eventually("it is granted", || sandbox.query() == ["held db exclusive"]);
    let broker = sandbox.broker().unwrap();
    kill_process(broker, Signal::STOP).unwrap();
    next.signal(Signal::CONT);
    next.begun();
    sandbox.remove_clients();
    next
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_keeps_its_lock_when_its_navlock_is_killed_before_the_broker_has_heard_of_it() {
    for how in [&["db"][..], &["-F", "db"]] {
        let sandbox = Sandbox::new();
        let mut next = a_holder_not_heard_yet(&sandbox, how);
        if !next.is_its_own_command() {
            // The holder has said which process its command is, though the broker has not heard it.
            next.rests();
            next.kill_wrapper();
        }
        kill_process(sandbox.broker().unwrap(), Signal::CONT).unwrap();
        assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1, "{how:?}");
        next.kill_command();
        assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0, "{how:?}");
    }
}

/// The role of a process that works under a lock by another one. It says so last, after much else, at a
/// moment when the broker does not hear it.
#[cfg(target_os = "linux")]
pub(crate) fn unheard(words: &[&str]) {
    let [gate, go, how] = words else { panic!("{words:?}") };
    let reach = worker::reach(&Place::from_env().unwrap());
    let locks = UserAgent::with_reach(reach.clone()).lock_manager("default");
    let held = block_on(locks.lock("db")).unwrap();
    let prepared = reach.prepare_lifeline(&["db".try_into().unwrap()]).unwrap();
    let mut lifeline = prepared.begin().unwrap();
    let mut child = Command::new("cat").arg(gate).spawn().unwrap();
    lifeline.hand_over();
    worker::say(&child.id().to_string());
    File::open(go).unwrap().read_exact(&mut [0]).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut statuses: Vec<_> = (0..150).map(|_| Box::pin(reach.status())).collect();
    let mut query = pin!(locks.query());
    match *how {
        "much" => statuses
            .iter_mut()
            .for_each(|one| assert!(one.as_mut().poll(&mut context).is_pending())),
        _ => assert!(query.as_mut().poll(&mut context).is_pending()),
    }
    let mut info = AgentInfo::default();
    info.pid = child.id();
    locks.describe(&info);
    worker::say("said");
    // Until it is killed.
    child.wait().unwrap();
    drop(held);
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_client_is_heard_to_the_end_however_many_messages_it_has_sent() {
    for how in ["much", "query"] {
        let sandbox = Sandbox::new();
        let [gate, go] = ["gate", "go"].map(|pipe| {
            let path = sandbox.pipe(pipe);
            (File::options().read(true).write(true).open(&path).unwrap(), path)
        });
        let words = format!("{} {} {how}", gate.1.display(), go.1.display());
        let mut worker = Worker::start(&sandbox, "removed::unheard", &words);
        let command = Pid::from_raw(worker.read_line().parse().unwrap()).unwrap();
        let broker = sandbox.broker().unwrap();
        stop(broker);
        (&go.0).write_all(b".").unwrap();
        assert_eq!(worker.read_line(), "said");
        sandbox.remove_clients();
        worker.kill();
        kill_process(broker, Signal::CONT).unwrap();
        assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1, "{how}");
        kill_process(command, Signal::KILL).unwrap();
        assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0, "{how}");
    }
}

#[test]
fn a_process_left_running_holds_nothing_when_files_are_removed_while_a_broker_waits() {
    let sandbox = Sandbox::new();
    let (gate, mut holder) = hold_with_child(&sandbox);
    let other = sandbox.hold(&["other"]);
    other.stop();
    let before = sandbox.kill_broker();
    eventually("the next broker has its navlock, and waits for the other", || {
        sandbox.broker().is_some_and(|broker| broker != before)
            && status_has(&sandbox, "\"clients\":1,")
    });
    for file in testaments(&sandbox) {
        fs::remove_file(file).unwrap();
    }
    holder.let_go();
    assert!(holder.ended().success());
    other.signal(Signal::CONT);
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    drop(gate);
    other.release();
}

/// The number of clients of a broker that may have 128 descriptors, and keeps some dozens of them in reserve.
const HOLDERS: usize = 52;

#[test]
fn a_broker_that_takes_over_has_room_for_all_whom_the_one_before_had() {
    let sandbox = Sandbox::new();
    let hold = || {
        let mut command = sandbox.program("sh");
        let script = "ulimit -n 128; exec \"$NAVLOCK\" run -s db sh -c 'echo $$; exec cat'";
        command.args(["-c", script]);
        let mut holder = Holder::start(command);
        holder.begun();
        holder
    };
    let mut holders: Vec<_> = (0..HOLDERS).map(|_| hold()).collect();
    sandbox.replace_broker();
    eventually("all hold again, or some have lost", || {
        sandbox.output(&["query"]).stdout.lines().count() == HOLDERS + 1
            || holders.iter_mut().any(Holder::has_ended)
    });
    assert!(!holders.iter_mut().any(Holder::has_ended));
    holders.into_iter().for_each(Holder::release);
}
