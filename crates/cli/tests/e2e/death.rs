//! What becomes of a lock when a process of its holder dies.

use crate::{sandbox::Sandbox, system::lives};

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
    // After two more round trips, the broker has had time to notice an end, if there were any.
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    assert_eq!(sandbox.query(), ["held db exclusive", "pending db exclusive"]);
    holder.let_go();
    waiter.begun();
    waiter.release();
}

#[test]
#[cfg(unix)]
fn a_command_s_children_in_the_background_do_not_keep_its_lock() {
    let sandbox = Sandbox::new();
    let mut script = sandbox.program("sh");
    // The child reads from a pipe to which nobody writes, until this test closes it.
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
    // The one that only waited behind it waits no longer.
    reader.begun();
    assert_eq!(sandbox.query(), ["held db shared", "held db shared"]);
    reader.release();
    holder.release();
}

#[test]
#[cfg(unix)]
fn a_signal_while_waiting_ends_the_wait() {
    use crate::{sandbox::eventually, system::Signal};
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
#[cfg(unix)]
fn when_the_broker_is_killed_and_cannot_come_back_the_command_is_ended_for_its_lost_lock() {
    use crate::{
        sandbox::eventually,
        system::{Signal, kill_process},
    };
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
    let said = waiter.stderr;
    assert!(said.contains("cannot reach the broker at"), "{said}");
}

#[test]
fn a_command_that_is_not_to_hold_the_lock_by_itself_does_not() {
    let sandbox = Sandbox::new();
    for flag in ["-o", "--close"] {
        let mut holder = sandbox.hold(&[flag, "db"]);
        let mut waiter = sandbox.queue(&["db"]);
        holder.kill_wrapper();
        // The command still runs.
        waiter.begun();
        assert!(lives(holder.command()));
        waiter.release();
    }
}
