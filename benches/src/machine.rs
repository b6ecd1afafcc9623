//! Machines: each has a broker of its own and clients at its socket. The broker is a process of the command
//! that stands beside this program.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use navlock::{BrokerReach, ConnectOptions, Place, UserAgent, blocking::block_on};
use tempfile::TempDir;

/// A process that ends when this is dropped.
pub(crate) struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine. Its broker ends when this is dropped, or soon after this process.
pub(crate) struct Machine {
    program: PathBuf,
    broker: Ended,
    socket: PathBuf,
    // Removed when the broker has ended.
    _directory: TempDir,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Otherwise its lease would last for a while, with the keys that it has.
        let _ = self.navlock(&["daemon", "stop"]).stdout(Stdio::null()).status();
    }
}

impl Machine {
    /// A machine that shares its locks with nobody.
    ///
    /// # Errors
    ///
    /// If its broker cannot be started.
    pub(crate) fn alone() -> Result<Self, String> {
        Self::start("sock", "")
    }

    /// A machine that shares its locks by the etcd at this endpoint. It owns names that it has taken so
    /// often; `None` is the default.
    ///
    /// # Errors
    ///
    /// If its broker cannot be started.
    pub(crate) fn on_etcd(endpoint: &str, keep_names: Option<u32>) -> Result<Self, String> {
        let keep_names = keep_names.map(|often| format!("keep-names = {often}\n"));
        let keep_names = keep_names.unwrap_or_default();
        Self::start(
            "sock.store-main",
            &format!("[stores.main]\netcd = [\"{endpoint}\"]\n{keep_names}"),
        )
    }

    fn start(socket: &'static str, settings: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("a machine: {error}");
        let program = env::current_exe().map_err(failed)?.with_file_name("navlock");
        if !program.exists() {
            return Err(format!(
                "there is no {}; 'cargo xtask bench' builds it",
                program.display()
            ));
        }
        let directory = tempfile::tempdir().map_err(failed)?;
        let settings = format!("log = \"warn\"\n{settings}");
        fs::write(directory.path().join("config.toml"), settings).map_err(failed)?;
        let socket = directory.path().join(socket);
        let mut command = navlock(&program, &socket);
        // It ends by itself if this process is killed.
        command.args(["daemon", "run", "--idle-seconds", "60"]);
        let broker = ready(command, "the broker")?;
        Ok(Self { program, broker, socket, _directory: directory })
    }

    /// The broker's process.
    pub(crate) fn pid(&self) -> u32 {
        self.broker.0.id()
    }

    /// The command, on this machine.
    pub(crate) fn navlock(&self, words: &[&str]) -> Command {
        let mut command = navlock(&self.program, &self.socket);
        command.args(words);
        command
    }

    /// A client of its own, which may own names, or asks the broker for each lock.
    ///
    /// # Errors
    ///
    /// If the broker is not there.
    pub(crate) fn client(&self, may_own: bool) -> Result<UserAgent, String> {
        client(&self.socket, may_own)
    }
}

/// The command, for a machine whose broker has this socket and its files beside it.
fn navlock(program: &Path, socket: &Path) -> Command {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    let mut command = Command::new(program);
    // It gets no settings from the surroundings of this program.
    for (name, _) in env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| name.starts_with("NAVLOCK_")))
    {
        command.env_remove(name);
    }
    command.env("NAVLOCK_SOCKET", socket).env("NAVLOCK_STATE", directory);
    command.env("NAVLOCK_CONFIG", directory.join("config.toml")).stdin(Stdio::null());
    command
}

/// A client of the broker at this socket.
///
/// # Errors
///
/// If there is no broker.
pub(crate) fn client(socket: &Path, may_own: bool) -> Result<UserAgent, String> {
    let options = ConnectOptions::default().place(Place::at(socket)).only_running();
    let reach = block_on(BrokerReach::connect(options.delegate(may_own)));
    Ok(UserAgent::with_reach(reach.map_err(|error| error.to_string())?))
}

/// Starts a program, and waits until it prints a line with `ready`.
///
/// # Errors
///
/// If it ends before that.
pub(crate) fn ready(mut command: Command, what: &str) -> Result<Ended, String> {
    let failed = |error: std::io::Error| format!("{what} does not start: {error}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut child = Ended(child);
    let Some(out) = child.0.stdout.take() else { return Err(format!("{what} says nothing")) };
    for line in BufReader::new(out).lines() {
        // A broker first prints what it waits for.
        if line.map_err(failed)? == "ready" {
            return Ok(child);
        }
    }
    Err(format!("{what} ended before it was ready"))
}
