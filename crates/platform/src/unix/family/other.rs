//! Where the system does not tell which process is whose parent: the command itself.

use std::{process::Child, thread, time::Duration};

use rustix::process::{Pid, kill_process};

use crate::{process::Signal, signal::Told};

/// The command.
#[derive(Debug)]
pub struct Family {
    command: Option<Pid>,
}

#[allow(missing_docs, reason = "as on Linux, where there are more")]
impl Family {
    pub fn new(_: &'static str) -> Self {
        Self { command: None }
    }

    pub fn begins(&mut self, command: &Child) {
        self.command = Some(Pid::from_child(command));
    }

    pub fn command_has_ended(&mut self) {
        self.command = None;
    }

    pub fn signal(&self, signal: Signal) {
        // The command has not been waited for yet, so the number is still its own.
        let _ =
            self.command.zip(signal.raw()).map(|(command, signal)| kill_process(command, signal));
    }

    pub fn pass_on(&self, told: Told) {
        self.signal(told.signal);
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub fn wait(&self, time: Duration) {
        thread::sleep(time.min(Duration::from_millis(20)));
    }

    pub fn has_ended(&self) -> bool {
        self.command.is_none()
    }

    pub fn names(&self) -> Vec<String> {
        self.command.iter().map(|pid| format!("process {}", pid.as_raw_nonzero())).collect()
    }

    #[expect(clippy::unused_self, reason = "as elsewhere")]
    pub fn reap(&self) {}
}
