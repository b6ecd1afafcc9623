//! A process of navlock-js-run.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use crate::broker::Broker;

/// What precedes the outcome in the output of a test.
const MARK: &str = "\n@outcome ";

/// How much longer than its test a process may take, to start and to report a missed deadline. In
/// milliseconds.
const GRACE: u32 = 30_000;

/// What `runTest` of the suite's kit reports.
#[derive(Debug, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) passed: bool,
    pub(crate) reason: Option<String>,
}

/// Why a process has reported no outcome: it hangs, or it has ended before.
#[derive(Debug)]
pub(crate) struct Untold(pub(crate) String);

pub(crate) struct Program(Command);

impl Program {
    /// `script` is a path in the repository.
    pub(crate) fn new(engine: &str, reach: &str, script: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new(env!("CARGO_BIN_EXE_navlock-js-run"));
        command
            .args(["--engine", engine, "--reach", reach])
            .args(["--bucket", &uuid::Uuid::new_v4().to_string()])
            .arg(root.join(script))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What the process leaves running ends with its group.
            .process_group(0);
        Self(command)
    }

    pub(crate) fn with_broker(&mut self, broker: &Broker) {
        self.0.env("NAVLOCK_SOCKET", broker.socket()).env("NAVLOCK_BIN", "/nonexistent");
    }

    /// Runs a test.
    pub(crate) fn run(
        &mut self,
        arguments: &[String],
        milliseconds: u32,
    ) -> Result<Outcome, Untold> {
        let output = self.output(arguments, milliseconds + GRACE).map_err(Untold)?;
        let outcome = output.rsplit_once(MARK).map(|(_, outcome)| serde_json::from_str(outcome));
        match outcome {
            Some(Ok(outcome)) => Ok(outcome),
            _ => Err(Untold(format!("the process ended before its test: {output}"))),
        }
    }

    /// The output of the process, with its error output if the process has failed.
    pub(crate) fn output(
        &mut self,
        arguments: &[String],
        milliseconds: u32,
    ) -> Result<String, String> {
        let mut child = self.0.args(arguments).spawn().unwrap();
        let group = Group(Pid::from_child(&child));
        let (output, errors) =
            (read(child.stdout.take().unwrap()), read(child.stderr.take().unwrap()));
        let (ended, has_ended) = mpsc::channel();
        let wait = thread::spawn(move || {
            let status = wait(&mut child);
            // If the process was late, nobody waits for this message any more.
            let _ = ended.send(());
            status
        });
        let is_late = has_ended.recv_timeout(Duration::from_millis(milliseconds.into())).is_err();
        drop(group);
        let (status, mut output) = (wait.join().unwrap(), output.join().unwrap());
        let errors = errors.join().unwrap();
        if is_late {
            return Err(format!("the process hangs: {output}{errors}"));
        }
        if !status.success() {
            output = format!("{output}\n{status}: {errors}");
        }
        Ok(output)
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    child.wait().unwrap()
}

fn read(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// A process and all processes that it has started.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // Perhaps no process is left.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}
