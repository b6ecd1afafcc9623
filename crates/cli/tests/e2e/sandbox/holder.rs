//! A `navlock run` that holds a lock until a test ends it.

#[cfg(target_os = "linux")]
use std::io::Write;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

#[cfg(unix)]
use super::deadline::eventually;
use super::deadline::{Lines, wait};
use crate::system::{Pid, Signal, kill_process, said_by};
#[cfg(unix)]
use crate::system::{stop, threads_are};

/// A `navlock run` whose command holds the lock until it is told to end.
pub(crate) struct Holder {
    wrapper: Child,
    /// The command ends when this is closed. It is not left in `wrapper`, whose `wait` would close it.
    hold: Option<ChildStdin>,
    says: Lines<ChildStdout>,
    pub(super) command: Option<Pid>,
}

impl Holder {
    /// Starts a `navlock run`, which may have to wait for its lock.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut wrapper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = Lines::of(wrapper.stdout.take().unwrap());
        let hold = wrapper.stdin.take();
        Self { wrapper, hold, says, command: None }
    }

    /// Waits until the command runs.
    pub(crate) fn begun(&mut self) {
        self.command = said_by(&self.line());
    }

    /// Kills `navlock run` itself.
    pub(crate) fn kill_wrapper(&mut self) {
        self.wrapper.kill().unwrap();
        self.wrapper.wait().unwrap();
    }

    /// Kills the command.
    pub(crate) fn kill_command(&self) {
        kill_process(self.command.unwrap(), Signal::KILL).unwrap();
    }

    /// Sends a signal to `navlock run` itself.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.wrapper), signal).unwrap();
    }

    /// The process of `navlock run` itself.
    pub(crate) fn wrapper(&self) -> Pid {
        Pid::from_child(&self.wrapper)
    }

    /// Whether the wrapper has ended by now.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.wrapper.try_wait().unwrap().is_some()
    }

    /// The command's process.
    pub(crate) fn command(&self) -> Pid {
        self.command.unwrap()
    }

    /// The command's process, if it has begun.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "they are all of etcd"))]
    pub(crate) fn command_if_any(&self) -> Option<Pid> {
        self.command
    }

    /// Whether no process stands between us and the command.
    pub(crate) fn is_its_own_command(&self) -> bool {
        self.command == Some(Pid::from_child(&self.wrapper))
    }

    /// The next line that the command writes.
    pub(crate) fn line(&mut self) -> String {
        self.says.next().unwrap_or_default().trim_end().to_owned()
    }

    /// Stops the wrapper, and waits until all of it has stopped.
    #[cfg(unix)]
    pub(crate) fn stop(&self) {
        stop(self.wrapper());
    }

    /// Waits until the wrapper has nothing left to do: a process that sleeps whenever one looks does not wait
    /// for a CPU.
    #[cfg(unix)]
    pub(crate) fn rests(&self) {
        let mut looks = 0;
        eventually("the wrapper rests", || {
            looks = if threads_are(self.wrapper(), 'S') { looks + 1 } else { 0 };
            looks > 40
        });
    }

    /// Writes a line to the command.
    #[cfg(target_os = "linux")]
    pub(crate) fn tell(&mut self, line: &str) {
        self.hold.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Has the command end by itself.
    pub(crate) fn let_go(&mut self) {
        drop(self.hold.take());
    }

    /// Waits for the end of the wrapper.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait(&mut self.wrapper)
    }

    /// Has the command end, and waits for it.
    pub(crate) fn release(mut self) {
        self.let_go();
        assert!(self.ended().success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.let_go();
        let _ = self.wrapper.kill();
        let _ = self.wrapper.wait();
    }
}

/// Kills all of these processes at one moment, as far as they can tell: each is stopped before any is killed,
/// so that none sees another one end.
#[cfg(all(unix, feature = "etcd"))]
pub(crate) fn kill_at_once(all: &[Pid]) {
    for process in all {
        stop(*process);
    }
    for process in all {
        kill_process(*process, Signal::KILL).unwrap();
    }
}
