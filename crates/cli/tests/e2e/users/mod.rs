//! The machine's broker, whose locks several users share. The users are real, so all of this needs root.

mod claims;
mod deaths;
mod exhausted;
mod files;
mod floods;
mod raw;
mod rights;
pub(crate) mod sharing;

use std::{
    fs,
    io::Read,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{set_thread_gid, set_thread_groups, set_thread_uid},
};
use serde_json::Value;

use crate::{
    sandbox::{Holder, Lines, NAVLOCK, Output, Sandbox, eventually, finish},
    system::HELD,
};

/// A user of the machine, by number and group.
#[derive(Clone, Copy, Debug)]
struct User {
    uid: u32,
    gid: u32,
}

/// The group whose members may use the broker.
const GROUP: u32 = 61_000;
/// The user whose process the broker is.
const BROKER: User = User { uid: 61_000, gid: GROUP };
const ADA: User = User { uid: 61_001, gid: GROUP };
const BEA: User = User { uid: 61_002, gid: GROUP };
const OUTSIDER: User = User { uid: 61_003, gid: 61_003 };
const ROOT: User = User { uid: 0, gid: 0 };

/// A place with a broker for several users. The broker ends when this is dropped.
struct Machine {
    sandbox: Sandbox,
    program: PathBuf,
    broker: Option<Child>,
}

impl Machine {
    /// A machine whose broker runs. `None` if this user cannot be several ones.
    fn new() -> Option<Self> {
        let mut machine = Self::without_broker()?;
        machine.start_broker();
        Some(machine)
    }

    /// A machine on which no broker for several users runs.
    fn without_broker() -> Option<Self> {
        if !geteuid().is_root() {
            println!("skipped: only root can be several users");
            return None;
        }
        let sandbox = Sandbox::new();
        fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        for directory in ["place", "state"] {
            fs::create_dir(sandbox.path(directory)).unwrap();
            chown(sandbox.path(directory), Some(BROKER.uid), Some(BROKER.gid)).unwrap();
        }
        let program = sandbox.path("navlock");
        // Another process copies: what this process has open for writing, a program that another test starts
        // would have open too.
        assert!(Command::new("cp").arg(NAVLOCK).arg(&program).status().unwrap().success());
        Some(Self { sandbox, program, broker: None })
    }

    /// The directory of the broker.
    fn directory(&self) -> PathBuf {
        self.sandbox.path("place")
    }

    fn socket(&self) -> PathBuf {
        self.directory().join("sock")
    }

    fn start_broker(&mut self) {
        self.start_broker_by("env", &[]);
    }

    /// Starts the broker by this program, to which its own command is given.
    fn start_broker_by(&mut self, program: &str, arguments: &[&str]) {
        let mut command = self.program(BROKER, program);
        command.args(arguments).arg(&self.program);
        command.args(["daemon", "run", "--system", "--group", &GROUP.to_string()]);
        command.env("NAVLOCK_STATE", self.sandbox.path("state"));
        let mut broker = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let said = Lines::of(broker.stdout.take().unwrap()).next();
        assert_eq!(said.as_deref(), Some("ready"));
        self.broker = Some(broker);
    }

    /// Kills the broker. Nobody starts another one.
    fn kill_broker(&mut self) {
        let mut broker = self.broker.take().unwrap();
        broker.kill().unwrap();
        broker.wait().unwrap();
    }

    /// A program of this user that finds `navlock` and the broker.
    fn program(&self, user: User, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.sandbox.program(program);
        for variable in ["NAVLOCK_SOCKET", "NAVLOCK_IDLE_SECS", "NAVLOCK_STATE"] {
            command.env_remove(variable);
        }
        command.env("NAVLOCK_SYSTEM", self.directory()).env("NAVLOCK", &self.program);
        command.uid(user.uid).gid(user.gid).current_dir("/");
        command
    }

    fn navlock(&self, user: User, arguments: &[&str]) -> Command {
        let mut command = self.program(user, &self.program);
        command.args(arguments);
        command
    }

    fn start(&self, user: User, arguments: &[&str]) -> Child {
        let mut command = self.navlock(user, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn output(&self, user: User, arguments: &[&str]) -> Output {
        finish(self.start(user, arguments))
    }

    #[track_caller]
    fn code(&self, user: User, arguments: &[&str]) -> i32 {
        self.output(user, arguments).code().unwrap()
    }

    #[track_caller]
    fn written(&self, user: User, arguments: &[&str]) -> String {
        let output = self.output(user, arguments);
        assert!(output.status.success(), "{user:?} {arguments:?}: {output:?}");
        output.stdout
    }

    /// A `navlock run` of this user that may still have to wait for its lock.
    fn wait_for(&self, user: User, arguments: &[&str]) -> Holder {
        let mut command = self.navlock(user, &["run"]);
        Holder::start({
            command.args(arguments).args(HELD);
            command
        })
    }

    /// A holder of this user, whose command is at work when this returns.
    fn hold(&self, user: User, arguments: &[&str]) -> Holder {
        let mut holder = self.wait_for(user, arguments);
        holder.begun();
        holder
    }

    /// A `navlock run` of this user that waits in a queue when this returns.
    fn queue(&self, user: User, arguments: &[&str]) -> Holder {
        let before = self.pending();
        let waiter = self.wait_for(user, arguments);
        eventually("it waits", || self.pending() > before);
        waiter
    }

    /// What this user sees of the locks and requests: of held ones first.
    fn query(&self, user: User) -> Vec<Value> {
        let text = self.written(user, &["query", "--json", "--system"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn pending(&self) -> usize {
        self.query(ROOT).iter().filter(|row| row["state"] == "pending").count()
    }

    fn fence(&self, user: User, name: &str) -> u64 {
        let arguments = ["run", "-w", "60", name, "-c", "echo $NAVLOCK_FENCE"];
        self.written(user, &arguments).trim().parse().unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(broker) = &mut self.broker {
            let _ = broker.kill();
            let _ = broker.wait();
        }
    }
}

/// Does this as another user, on a thread that is that user's until it ends.
fn as_user<T: Send>(user: User, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            set_thread_groups(&[]).unwrap();
            set_thread_gid(Gid::from_raw(user.gid)).unwrap();
            set_thread_uid(Uid::from_raw(user.uid)).unwrap();
            work()
        });
        worker.join().unwrap()
    })
}
