//! Other processes of this program, and the lines of the standard input.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write, stdin},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use clap::ValueEnum;
use rustix::{
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, waitid},
};
use serde_json::json;

use crate::{
    args::Reach,
    mailbox::{Event, Mailbox, Source},
    shared::Shared,
};

/// A process that an agent has started.
pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    input: Option<ChildStdin>,
}

impl Process {
    /// Sends a line to the process. If the process no longer reads, the line is lost. The end of
    /// the process is reported anyway.
    pub(crate) fn write(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            if writeln!(input, "{line}").is_err() {
                self.input = None;
            }
        }
    }

    /// Kills the process, without waiting for its end.
    pub(crate) fn kill(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

/// Starts another process like this one, with the same engine, reach and bucket. The agent gets
/// each line that the process prints, and then the end of the process.
///
/// # Errors
///
/// The process cannot be started.
pub(crate) fn start(
    shared: &Shared,
    number: u64,
    arguments: Vec<String>,
    mailbox: &Arc<Mailbox>,
) -> Result<Process, String> {
    let program = env::current_exe().map_err(|error| format!("this program has gone: {error}"))?;
    let name = |value: Option<clap::builder::PossibleValue>| {
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    let mut command = Command::new(program);
    command
        .args(["--engine", &name(shared.engine.to_possible_value())])
        .args(["--reach", &name(Reach::to_possible_value(&shared.locks.reach))])
        .args(["--bucket", &shared.locks.bucket])
        .args(arguments);
    follow(command, number, mailbox).map_err(|error| format!("cannot start a process: {error}"))
}

/// Starts a process, and sends its lines and its end to the mailbox.
fn follow(mut command: Command, number: u64, mailbox: &Arc<Mailbox>) -> io::Result<Process> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let id = WaitId::Pid(Pid::from_child(&child));
    let input = child.stdin.take();
    let output = child.stdout.take().map(|stream| tell_lines(stream, number, "line", mailbox));
    let errors = child.stderr.take().map(|stream| tell_lines(stream, number, "errorLine", mailbox));
    let child = Arc::new(Mutex::new(child));
    let process = Process { child: Arc::clone(&child), input };
    let mailbox = Arc::clone(mailbox);
    thread::spawn(move || {
        // The agent gets all lines of the process before its end.
        for reader in [output, errors].into_iter().flatten() {
            let _ = reader.join();
        }
        // The streams of the process are closed: the process is ending, or it has closed the
        // streams itself and goes on. This waits for its end without taking its status. Until the
        // status is taken, the process keeps its number, so a kill in between hits no other
        // process.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(id.clone(), options), Err(Errno::INTR)) {}
        let status = child.lock().unwrap_or_else(PoisonError::into_inner).wait();
        let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
        let end = json!({ "process": number, "end": { "code": code, "signal": signal } });
        mailbox.send(Event { text: end.to_string(), over: Some(Source::Process(number)) });
    });
    Ok(process)
}

fn tell_lines(
    stream: impl Read + Send + 'static,
    number: u64,
    member: &'static str,
    mailbox: &Arc<Mailbox>,
) -> JoinHandle<()> {
    let mailbox = Arc::clone(mailbox);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let text = json!({ "process": number, member: line }).to_string();
            mailbox.send(Event { text, over: None });
        }
    })
}

/// Sends the lines of the standard input to the agent.
///
/// # Errors
///
/// This process may start no more threads.
pub(crate) fn read_input(mailbox: Arc<Mailbox>) -> Result<(), String> {
    let read = move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            mailbox.send(Event { text: json!({ "input": line }).to_string(), over: None });
        }
        let text = json!({ "input": null }).to_string();
        mailbox.send(Event { text, over: Some(Source::Input) });
    };
    let thread = thread::Builder::new().name("input".to_owned()).spawn(read);
    thread.map(drop).map_err(|error| format!("there is no room for a thread: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn a_process_that_has_closed_its_streams_can_be_killed() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec >&- 2>&-; read line; exec sleep 1000"]);
        let mailbox = Arc::default();
        let mut process = follow(command, 1, &mailbox).unwrap();
        let id = process.child.lock().unwrap().id();
        // When the process runs `sleep`, it has closed its streams.
        process.write("");
        while std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap() != "sleep\n" {
            thread::yield_now();
        }
        // The threads that read the streams have then time to see the end.
        for _ in 0..1000 {
            thread::yield_now();
        }
        let (killed, has_killed) = mpsc::channel();
        thread::spawn(move || {
            process.kill();
            killed.send(process).unwrap();
        });
        let killed = has_killed.recv_timeout(Duration::from_secs(60));
        if killed.is_err() {
            // The process still runs.
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
        assert!(killed.is_ok(), "to kill it waits for its end");
        mailbox.wait(None);
        let end = mailbox.take().unwrap();
        assert_eq!(end.text, r#"{"end":{"code":null,"signal":9},"process":1}"#);
    }
}
