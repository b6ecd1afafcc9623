//! A service manager, as a broker sees it.

use std::{
    os::unix::net::UnixDatagram,
    process::{Command, Stdio},
    time::Duration,
};

use crate::sandbox::Sandbox;

/// Starts a broker as a service, and is told of its state by `sd_notify(3)`.
pub(super) struct ServiceManager<'a> {
    sandbox: &'a Sandbox,
    socket: UnixDatagram,
}

impl<'a> ServiceManager<'a> {
    pub(super) fn new(sandbox: &'a Sandbox) -> Self {
        let socket = UnixDatagram::bind(sandbox.path("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { sandbox, socket }
    }

    /// A broker that is not started yet. The caller sets its error stream.
    pub(super) fn start(&self) -> Command {
        let mut command = self.sandbox.navlock(&["daemon", "run"]);
        command.env("NOTIFY_SOCKET", self.sandbox.path("notify")).stdout(Stdio::null());
        command
    }

    /// The next message of the broker.
    pub(super) fn receive(&self) -> String {
        let mut bytes = [0; 500];
        let length = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }
}
