//! Where nobody says who is whose parent: the command itself.

use std::{thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

pub(in super::super) struct Family {
    command: Option<Pid>,
}

impl Family {
    pub(in super::super) fn new() -> Self {
        Self { command: None }
    }

    pub(in super::super) fn begins(&mut self, command: Pid) {
        self.command = Some(command);
    }

    pub(in super::super) fn command_has_ended(&mut self) {
        self.command = None;
    }

    pub(in super::super) fn signal(&self, signal: Signal) {
        // Not waited for yet, so the number is still its own.
        let _ = self.command.map(|command| kill_process(command, signal));
    }

    pub(in super::super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(in super::super) fn wait(&self, time: Duration) {
        thread::sleep(time.min(Duration::from_millis(20)));
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.command.is_none()
    }

    pub(in super::super) fn names(&self) -> Vec<String> {
        self.command.iter().map(|pid| format!("process {}", pid.as_raw_nonzero())).collect()
    }

    #[expect(clippy::unused_self, reason = "as elsewhere")]
    pub(in super::super) fn reap(&self) {}
}
