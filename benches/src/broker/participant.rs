//! The processes that take part: this program, started again with other arguments, or a server
//! that is installed here.
//!
//! A participant is killed when its [`Participant`] is dropped, and by the kernel when the process that
//! started it is gone. Waiting for a participant's words has a deadline.

use std::{
    env,
    ffi::OsStr,
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::OwnedFd,
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// The first argument that makes this program take part.
pub(crate) const PARTICIPANT: &str = "participant";

/// How long a process may take to say something.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server may take to end when it is asked to.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The user that a participant runs as.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A process that takes part, for the process that started it. The participant ends when this is dropped.
pub(super) struct Participant {
    what: String,
    child: Child,
    lines: BufReader<UnixStream>,
    /// Whether it is asked to end first, because it has to put something in order.
    asked_first: bool,
}

impl Participant {
    /// Starts this program on this CPU, in the role that the words name.
    pub(super) fn ours(cpu: usize, words: &[&OsStr]) -> io::Result<Self> {
        Self::ours_of(cpu, words, None)
    }

    /// The same, as a process of this user.
    pub(super) fn ours_of(cpu: usize, words: &[&OsStr], user: Option<User>) -> io::Result<Self> {
        let mut command = ourselves(cpu)?;
        command.args(words);
        if let Some(User { uid, gid }) = user {
            command.uid(uid).gid(gid);
        }
        Self::start(command, words.join(OsStr::new(" ")).to_string_lossy().into_owned(), false)
    }

    /// Starts an installed server on this CPU. Its standard error is read like its standard output. If this
    /// process is root and the server refuses to be root, it runs as this user.
    pub(super) fn server(
        cpu: usize,
        program: &Path,
        arguments: &[&OsStr],
        user: Option<User>,
    ) -> io::Result<Self> {
        let mut command = ourselves(cpu)?;
        command.arg("exec").arg(program).args(arguments);
        // This is also for programs that end by themselves, such as the one that makes a new database: they
        // would work in the current directory.
        command.current_dir("/");
        if let Some(User { uid, gid }) = user {
            command.uid(uid).gid(gid);
        }
        Self::start(command, program.to_string_lossy().into_owned(), true)
    }

    fn start(mut command: Command, what: String, heard_complaining: bool) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let end = || -> io::Result<Stdio> { Ok(OwnedFd::from(theirs.try_clone()?).into()) };
        command.stdin(end()?).stdout(end()?);
        if heard_complaining {
            command.stderr(end()?);
        }
        let child = command.spawn()?;
        Ok(Self { what, child, lines: BufReader::new(ours), asked_first: heard_complaining })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line it says.
    pub(super) fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Err(io::Error::other(format!("{} ended too early", self.what))),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let what = &self.what;
                Err(io::Error::other(format!("{what} said nothing for {ANSWER_TIMEOUT:?}")))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads lines until one contains this.
    pub(super) fn read_until(&mut self, what: &str) -> io::Result<()> {
        let mut before = String::new();
        loop {
            match self.read_line() {
                Ok(line) if line.to_ascii_lowercase().contains(what) => return Ok(()),
                Ok(line) => before = line,
                Err(error) if before.is_empty() => return Err(error),
                Err(error) => return Err(io::Error::other(format!("{error}; it said: {before}"))),
            }
        }
    }

    /// A line of numbers.
    pub(super) fn read_numbers(&mut self) -> io::Result<Vec<f64>> {
        let line = self.read_line()?;
        let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        numbers.map_err(|error| io::Error::other(format!("{} said {line:?}: {error}", self.what)))
    }

    pub(super) fn write_line(&mut self, line: &str) -> io::Result<()> {
        self.lines.get_mut().write_all(format!("{line}\n").as_bytes())
    }

    /// Kills it, and does not wait for that to be done.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Waits until it has ended, and well.
    pub(super) fn end(mut self) -> io::Result<()> {
        let mut said = String::new();
        while let Ok(line) = self.read_line() {
            said = line;
        }
        match self.wait(END_TIMEOUT) {
            Some(0) => Ok(()),
            _ => Err(io::Error::other(format!("{} failed; it said: {said}", self.what))),
        }
    }

    /// Its exit code, or 128 plus the number of the signal that ended it, if it ends in time.
    fn wait(&mut self, timeout: Duration) -> Option<i32> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code().or_else(|| Some(128 + status.signal()?));
            }
            if Instant::now() >= deadline {
                return None;
            }
            // There is no event for the end of a child with a deadline without a handler for the
            // whole process, and nothing is measured by now.
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        if self.asked_first {
            let asked = i32::try_from(self.pid())
                .ok()
                .and_then(Pid::from_raw)
                .is_some_and(|pid| kill_process(pid, Signal::INT).is_ok());
            if asked && self.wait(END_TIMEOUT).is_some() {
                return;
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that starts this program as a participant.
fn ourselves(cpu: usize) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(PARTICIPANT).arg(cpu.to_string());
    Ok(command)
}

/// Writes a line to the process that started this one. If that process is gone, this one soon ends.
pub(super) fn write_line(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Waits until the process that started this one writes a line, or is gone.
pub(super) fn wait_for_line() -> io::Result<()> {
    io::stdin().read_line(&mut String::new()).map(drop)
}
