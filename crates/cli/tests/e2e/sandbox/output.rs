//! How a process ended, and what it wrote.

use std::{
    io,
    process::{self, Child, Command, ExitStatus},
    thread::{self, JoinHandle},
};

use super::deadline::wait;

/// How a process ended, and what it wrote. All that `navlock` writes is text.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// Runs a command to its end. Its output is read while it is written, and may be long.
    pub(crate) fn of(command: &mut Command) -> Self {
        let process::Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { status, stdout: text(stdout), stderr: text(stderr) }
    }

    /// The exit code; `None` if the process was killed by a signal.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Asserts that the process ended with this code, and that its error stream has this text.
    #[track_caller]
    pub(crate) fn assert_says(&self, code: i32, text: &str) {
        let is_so = self.code() == Some(code) && self.stderr.contains(text);
        assert!(is_so, "not with code {code} and {text:?}: {self:?}");
    }
}

/// Waits for the end of a process, and for its output.
pub(crate) fn finish(mut child: Child) -> Output {
    // A process that fills a pipe which nobody reads does not end.
    let stdout = child.stdout.take().map(|from| thread::spawn(|| io::read_to_string(from)));
    let stderr = child.stderr.take().map(|from| thread::spawn(|| io::read_to_string(from)));
    let status = wait(&mut child);
    let text = |reader: Option<JoinHandle<io::Result<String>>>| {
        reader.map_or(Ok(String::new()), |reader| reader.join().unwrap()).unwrap()
    };
    Output { status, stdout: text(stdout), stderr: text(stderr) }
}
