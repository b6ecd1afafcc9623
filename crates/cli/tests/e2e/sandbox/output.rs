//! How a process ended, and what it wrote.

use std::{
    io::{self, Read},
    process::{self, Child, Command, ExitStatus},
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

/// Waits for the end of a process, and for its output, which must be short.
pub(crate) fn finish(mut child: Child) -> Output {
    let status = wait(&mut child);
    let read =
        |from: Option<&mut dyn Read>| from.map_or(Ok(String::new()), io::read_to_string).unwrap();
    let stdout = read(child.stdout.as_mut().map(|from| from as _));
    let stderr = read(child.stderr.as_mut().map(|from| from as _));
    Output { status, stdout, stderr }
}
