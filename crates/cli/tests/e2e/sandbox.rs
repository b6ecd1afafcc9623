//! What tests of the built `navlock` are written with. A test in four lines:
//!
//! ```
//! let sandbox = Sandbox::new();
//! let holder = sandbox.hold(&["db"]);
//! assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
//! holder.release();
//! ```
//!
//! A [`Sandbox`] is a directory with a broker of its own. Everything that waits has a deadline.
//!
//! | to | call |
//! |---|---|
//! | run `navlock` to its end | [`output`](Sandbox::output), an [`Output`], which may [`assert_says`](Output::assert_says); [`code`](Sandbox::code), [`written`](Sandbox::written) or [`answered`](Sandbox::answered) if the test needs no more |
//! | run it with other variables or streams | [`navlock`](Sandbox::navlock), or [`program`](Sandbox::program) for a script; then [`Output::of`] |
//! | run it beside the test | [`start`](Sandbox::start), then [`finish`] or [`wait`] |
//! | have a lock held | [`hold`](Sandbox::hold) or [`hold_by`](Sandbox::hold_by), a [`Holder`] |
//! | have a request wait | [`queue`](Sandbox::queue); [`wait_for`](Sandbox::wait_for) or [`wait_behind`](Sandbox::wait_behind) if it may be granted |
//! | see the locks | [`query`](Sandbox::query), [`pending`](Sandbox::pending), [`fence`](Sandbox::fence) |
//! | do something to the broker | [`broker`](Sandbox::broker), [`kill_broker`](Sandbox::kill_broker), [`replace_broker`](Sandbox::replace_broker) |
//! | make a file | [`path`](Sandbox::path), [`write`], [`pipe`](Sandbox::pipe) |
//! | wait for what nothing announces | [`eventually`] |
//! | have a process of Rust beside the test | [`Worker`](crate::worker::Worker), with a role that the test's file defines |
//!
//! What differs between the systems is in [`system`](crate::system).

mod deadline;
mod holder;
mod output;

use std::{
    env,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use navlock::{Look, LookOptions, Place};
use navlock_platform::file_lock;

#[cfg(all(unix, feature = "etcd"))]
pub(crate) use self::holder::kill_at_once;
pub(crate) use self::{
    deadline::{Lines, eventually, wait},
    holder::Holder,
    output::{Output, finish},
};
use crate::system::{
    ECHO_FENCE, HELD, NOTHING, Pid, Signal, absolute, add_programs, heed_signals, kill_process,
};

/// A directory with a broker's socket in it. The broker ends when this is dropped.
pub(crate) struct Sandbox {
    directory: tempfile::TempDir,
    idle: &'static str,
    /// The settings of its broker: none, whatever settings this machine has.
    config: PathBuf,
    /// The name of the socket.
    socket: &'static str,
    /// Whether the settings choose the broker, and not the environment.
    chooses: bool,
}

impl Sandbox {
    /// A sandbox whose broker has no settings.
    pub(crate) fn new() -> Self {
        Self::with_idle("30")
    }

    /// A sandbox whose broker ends after so many seconds without clients.
    pub(crate) fn with_idle(idle: &'static str) -> Self {
        heed_signals();
        Self {
            directory: tempfile::tempdir().unwrap(),
            idle,
            config: NOTHING.into(),
            socket: "sock",
            chooses: false,
        }
    }

    /// A sandbox whose broker has these settings, and is that of the store `main` if they begin with it.
    #[cfg_attr(
        not(any(feature = "etcd", feature = "postgres")),
        expect(dead_code, reason = "they are all of stores")
    )]
    pub(crate) fn with_settings(settings: &str) -> Self {
        let mut sandbox = Self::new();
        sandbox.config = sandbox.path("config.toml");
        if settings.starts_with("[stores.main]") {
            sandbox.socket = "sock.store-main";
        }
        sandbox.write_settings(settings);
        sandbox
    }

    /// A sandbox whose settings say where its brokers are, and where buckets live.
    #[cfg(all(unix, feature = "etcd"))]
    pub(crate) fn with_buckets(settings: &str) -> Self {
        let mut sandbox = Self::with_settings("");
        sandbox.chooses = true;
        sandbox.write_settings(&format!("socket = '{}'\n{settings}", sandbox.socket().display()));
        sandbox
    }

    /// Gives these settings to its next broker.
    pub(crate) fn write_settings(&self, settings: &str) {
        write(&self.config, settings);
    }

    /// The path of a file in the directory, which may not be there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The path of the broker's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path(self.socket)
    }

    /// The path of the broker's file of this name, or its directory.
    fn beside(&self, name: &str) -> PathBuf {
        self.path(&format!("{}.{name}", self.socket))
    }

    /// Makes a named pipe.
    #[cfg(unix)]
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        // By the program mkfifo, because not every system has the call.
        let path = self.path(name);
        let made = Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    /// A program that finds `navlock`, and its broker, as a script of a user would.
    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        // Whoever runs the tests may have settings of navlock's in the environment.
        for (variable, _) in env::vars_os() {
            if variable.to_string_lossy().starts_with("NAVLOCK") {
                command.env_remove(variable);
            }
        }
        if !self.chooses {
            command.env("NAVLOCK_SOCKET", self.socket());
        }
        command
            .env("NAVLOCK_IDLE_SECS", self.idle)
            .env("NAVLOCK", absolute(NAVLOCK))
            .env("NAVLOCK_CONFIG", &self.config)
            .env("NAVLOCK_STATE", self.path("state"))
            .env_remove("NO_COLOR")
            .env_remove("SUDO_UID")
            .current_dir(self.directory.path());
        add_programs(&mut command, self.directory.path());
        command
    }

    /// `navlock` with these arguments, which a test may change further and then start.
    pub(crate) fn navlock(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(absolute(NAVLOCK));
        command.args(arguments);
        command
    }

    /// Runs `navlock` with these arguments to its end.
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        finish(self.start(arguments))
    }

    /// The exit code of `navlock` with these arguments.
    pub(crate) fn code(&self, arguments: &[&str]) -> i32 {
        self.output(arguments).status.code().unwrap()
    }

    /// The code of a command that does not wait for its lock, once a broker has answered it. On a busy
    /// machine the command gives up on a broker that is slow to start.
    pub(crate) fn answered(&self, arguments: &[&str]) -> i32 {
        let mut code = 69;
        eventually("it has an answer", || {
            code = self.code(arguments);
            code != 69
        });
        code
    }

    /// What `navlock` writes with these arguments. It must end well.
    pub(crate) fn written(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Starts `navlock` with these arguments, and keeps what it writes for [`finish`].
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.navlock(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// A holder whose command is at work when this returns, and is known to the broker.
    pub(crate) fn hold(&self, arguments: &[&str]) -> Holder {
        let mut holder = self.wait_for(arguments);
        holder.begun();
        self.know(&mut holder);
        holder
    }

    /// Waits until the broker knows which process the holder's command is. A `navlock run` says so once it
    /// has started the command, which may have written something by then.
    pub(crate) fn know(&self, holder: &mut Holder) {
        let number = |pid: Pid| pid.as_raw_nonzero().get().unsigned_abs();
        let (wrapper, command) = (number(holder.wrapper()), holder.command.map(number));
        eventually("the broker knows the command", || {
            let Ok(seen) = Look::once(Place::at(self.socket()), LookOptions::default()) else {
                return false;
            };
            let found = seen.agents.values().find(|agent| {
                let client = agent.client.and_then(|client| seen.clients.get(&client));
                let is_ours = client.is_some_and(|client| client.pid == wrapper);
                let pid = agent.info.pid;
                command.map_or(is_ours && pid != wrapper, |command| pid == command)
            });
            let found = found.and_then(|agent| Pid::from_raw(agent.info.pid.try_into().ok()?));
            holder.command = holder.command.or(found);
            found.is_some()
        });
    }

    /// A `navlock run` that may still have to wait for its lock.
    pub(crate) fn wait_for(&self, arguments: &[&str]) -> Holder {
        let mut command = self.navlock(&["run"]);
        command.args(arguments).args(HELD);
        Holder::start(command)
    }

    /// A `navlock run` that waits in a queue when this returns.
    pub(crate) fn queue(&self, arguments: &[&str]) -> Holder {
        let before = self.pending();
        let waiter = self.wait_for(arguments);
        eventually("it waits", || self.pending() > before);
        waiter
    }

    /// A holder whose command is this script, and is at work when this returns. The script begins by printing
    /// its number: `echo $$`.
    #[cfg(unix)]
    pub(crate) fn hold_by(&self, arguments: &[&str], script: &str) -> Holder {
        let mut command = self.navlock(&["run"]);
        command.args(arguments).args(["sh", "-c", script]);
        let mut holder = Holder::start(command);
        holder.begun();
        holder
    }

    /// A `navlock run` that is started once this named pipe has a writer.
    #[cfg(unix)]
    pub(crate) fn wait_behind(&self, gate: &Path, arguments: &[&str]) -> Holder {
        let mut command = self.program("sh");
        command.args(["-c", ": <\"$0\"; exec \"$NAVLOCK\" run \"$@\""]).arg(gate);
        command.args(arguments).args(HELD);
        Holder::start(command)
    }

    /// The fencing token of a holder that comes now, once the lock of this name is free.
    pub(crate) fn fence(&self, name: &str) -> u64 {
        self.written(&["run", "-w", "20", name, "-c", ECHO_FENCE]).trim().parse().unwrap()
    }

    /// The lines of `navlock query`, each as state and name and mode.
    pub(crate) fn query(&self) -> Vec<String> {
        let row = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        self.written(&["query"]).lines().skip(1).map(row).collect()
    }

    /// How many requests wait.
    pub(crate) fn pending(&self) -> usize {
        self.query().iter().filter(|line| line.starts_with("pending")).count()
    }

    /// Removes the directory of clients with all that is in it, as `rm -r` does.
    #[cfg(unix)]
    pub(crate) fn remove_clients(&self) {
        // Clients may make their files anew while the others are still being removed.
        eventually("the files of clients are removed", || {
            let removed = fs::remove_dir_all(self.beside("clients"));
            let Err(error) = removed else { return true };
            assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
            false
        });
    }

    /// Moves the directory away, so that nobody finds it any more.
    #[cfg(unix)]
    pub(crate) fn hide(&self) {
        fs::rename(self.path(""), self.hidden()).unwrap();
    }

    fn hidden(&self) -> PathBuf {
        self.directory.path().with_extension("hidden")
    }

    /// Kills the broker. Returns its process.
    pub(crate) fn kill_broker(&self) -> Pid {
        let broker = self.broker().unwrap();
        kill_process(broker, Signal::KILL).unwrap();
        broker
    }

    /// Kills the broker, and waits until its clients have found the next one.
    pub(crate) fn replace_broker(&self) {
        let killed = self.kill_broker();
        eventually("there is another broker", || self.broker().is_some_and(|next| next != killed));
    }

    /// The broker's process, from the file whose lock it holds.
    pub(crate) fn broker(&self) -> Option<Pid> {
        let path = self.beside("broker.lock");
        let file = File::open(&path).ok()?;
        if file_lock::try_shared(&file).unwrap() {
            return None;
        }
        Pid::from_raw(fs::read_to_string(&path).ok()?.trim().parse().ok()?)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.hidden());
        // Another broker may have waited for the end of this one.
        eventually("the broker ends", || {
            let broker = self.broker();
            let _ = broker.map(|broker| kill_process(broker, Signal::TERM));
            broker.is_none()
        });
        // A fault inside a broker may have had no other effect.
        let faults = fs::read_to_string(self.path("state/faults.log")).unwrap_or_default();
        assert!(faults.is_empty() || thread::panicking(), "a broker panicked: {faults}");
    }
}

/// The program that is tested.
pub(crate) const NAVLOCK: &str = env!("CARGO_BIN_EXE_navlock");

/// Writes a file that has this text alone.
pub(crate) fn write(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}
