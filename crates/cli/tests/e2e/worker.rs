//! Processes that use the library, for tests that need many of them: this very program, started again in a
//! role.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

#[cfg(unix)]
use crate::{
    crowd, forked, kills, owned, removed, slow_exit,
    system::{Pid, Signal, kill_process, stop},
};
use crate::{
    exclusion, executors,
    sandbox::{Lines, NAVLOCK, Sandbox, wait},
    system::absolute,
};
use navlock::{
    BrokerReach, ConnectOptions, LockManager, Place, UserAgent, blocking::block_on_timeout,
};

/// How long anything may take that must happen.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(90);

/// The variable that says which role is played, and the one that says how.
const ROLE: &str = "NAVLOCK_TEST_ROLE";
const WORDS: &str = "NAVLOCK_TEST_WORDS";

/// The work of a process that a test starts.
pub(crate) type Role = fn(words: &[&str]);

#[test]
#[ignore = "is what processes run that other tests start"]
fn play() {
    let Ok(role) = env::var(ROLE) else {
        return;
    };
    let words = env::var(WORDS).unwrap();
    let words: Vec<_> = words.split_whitespace().collect();
    let (_, play) = ROLES.iter().find(|(name, _)| *name == role).unwrap();
    play(&words);
}

/// All roles, by name.
const ROLES: &[(&str, Role)] = &[
    #[cfg(unix)]
    ("crowd::late", crowd::late),
    #[cfg(target_os = "linux")]
    ("replaced::holds", crate::replaced::holds),
    #[cfg(unix)]
    ("slow_exit::hold", slow_exit::hold),
    #[cfg(unix)]
    ("forked::parent", forked::parent),
    #[cfg(target_os = "linux")]
    ("deadlock::starts_a_command", crate::deadlock::starts_a_command),
    #[cfg(all(unix, feature = "etcd"))]
    ("etcd::buckets::takes", crate::etcd::buckets::takes),
    ("exclusion::count", exclusion::count),
    ("exclusion::reader", exclusion::reader),
    ("exclusion::writer", exclusion::writer),
    ("executors::mix", executors::mix),
    #[cfg(target_os = "linux")]
    ("jams::crossed", crate::jams::crossed),
    #[cfg(target_os = "linux")]
    ("jams::liar", crate::jams::liar),
    #[cfg(unix)]
    ("kills::client", kills::client),
    #[cfg(unix)]
    ("kills::command", kills::command),
    #[cfg(target_os = "linux")]
    ("order::kills", crate::order::kills),
    #[cfg(target_os = "linux")]
    ("order::make_noise", crate::order::make_noise),
    #[cfg(target_os = "linux")]
    ("order::play", crate::order::play),
    #[cfg(unix)]
    ("owned::client", owned::client),
    #[cfg(unix)]
    ("project::play", crate::project::play),
    #[cfg(unix)]
    ("stopped::asks", crate::stopped::asks),
    #[cfg(target_os = "linux")]
    ("removed::unheard", removed::unheard),
    #[cfg(target_os = "linux")]
    ("users::holds", crate::users::sharing::holds),
];

/// The arguments of this program with which it plays a role.
pub(crate) const PLAY: [&str; 4] = ["--exact", "worker::play", "--ignored", "--nocapture"];

/// The command that starts this program in a role.
pub(crate) fn program(sandbox: &Sandbox, role: &str, words: &str) -> Command {
    let mut command = sandbox.program(env::current_exe().unwrap());
    cast(command.args(PLAY), role, words);
    command
}

/// Gives the role to this program, if it is the program that the command finally starts.
pub(crate) fn cast<'a>(command: &'a mut Command, role: &str, words: &str) -> &'a mut Command {
    command.env(ROLE, role).env(WORDS, words)
}

/// In a worker: prints this for the test that started it.
pub(crate) fn say(what: &str) {
    // What the test harness prints has no end of line of its own.
    let line = format!("\n@{what}\n");
    io::stdout().write_all(line.as_bytes()).unwrap();
}

/// In a worker: the locks of its sandbox, by a connection of its own.
pub(crate) fn locks() -> LockManager {
    connect(&Place::from_env().unwrap()).lock_manager("default")
}

/// In a worker: its connection, and the locks of its sandbox by that connection.
pub(crate) fn connected() -> (BrokerReach, LockManager) {
    let reach = reach(&Place::from_env().unwrap());
    (reach.clone(), UserAgent::with_reach(reach).lock_manager("default"))
}

/// A connection of its own to this broker, which is started if it is not there.
pub(crate) fn connect(place: &Place) -> UserAgent {
    UserAgent::with_reach(reach(place))
}

/// A connection of its own to this broker, before a user agent has it.
pub(crate) fn reach(place: &Place) -> BrokerReach {
    let options = ConnectOptions::default().place(place.clone()).program(absolute(NAVLOCK));
    let connected = block_on_timeout(BrokerReach::connect(options), TIMEOUT);
    connected.expect("it connects in good time").unwrap()
}

/// Adds a line to a file to which others add theirs.
pub(crate) fn note(path: impl AsRef<Path>, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // One write, so that the line is whole whoever is killed.
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// A process that plays a role.
pub(crate) struct Worker {
    child: Child,
    says: Lines<ChildStdout>,
}

impl Worker {
    pub(crate) fn start(sandbox: &Sandbox, role: &str, words: &str) -> Self {
        let mut command = program(sandbox, role, words);
        Self::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The worker of a process that was started with a pipe to write to.
    pub(crate) fn of(mut child: Child) -> Self {
        let says = Lines::of(child.stdout.take().unwrap());
        Self { child, says }
    }

    /// The next thing that it says.
    pub(crate) fn read_line(&mut self) -> String {
        // The test harness prints lines of its own.
        let said = self.says.find_map(|line| Some(line.strip_prefix('@')?.trim_end().to_owned()));
        said.expect("it has ended and said nothing more")
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and waits until all of it has stopped.
    #[cfg(unix)]
    pub(crate) fn stop(&self) {
        stop(Pid::from_child(&self.child));
    }

    /// Kills it, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.ended();
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
