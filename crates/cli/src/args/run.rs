//! The arguments of `navlock run`, and those of every command that asks for locks.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    time::Duration,
};

use clap::{Args, ValueEnum};
use navlock::{AgentInfo, Mode, ResourceName};
use navlock_broker::MAX_META;

use super::values::{self, spelled};
use crate::exit::{Failure, USAGE};

pub(super) const EXIT_CODES: &str = "\
Names and the command:
  NAME [--] COMMAND [ARGUMENT]...         one lock; the rest is the command, as for flock(1)
  -l NAME... [--] COMMAND [ARGUMENT]...   several locks: -l before each name
  NAME -c TEXT, or -l NAME... -c TEXT     a line for the shell
Options stand before the name. If the command has a \"--\" among its own arguments, the name has one
after it as well: NAME -- COMMAND ARGUMENT -- ARGUMENT. Several locks are taken one after the other,
in the one order that all programs use: those that take several at once cannot wait for each other
in a cycle. If one of them cannot be had, none is held.

Exit codes:
  the command's own; 128+n if signal n ended it
  1    a lock is held and -n was given, or the time of -w is over; -E chooses another number
  N    of --deadlock-exit-code, if it would have waited for ever
  64   the arguments are wrong, or ask for more than the broker takes
  69   the broker cannot be reached or started, or the disk has no room for what the command holds;
       or the etcd of the settings did not answer, and the lock was not waited for in a queue yet
  75   a lock was lost, and the command told to end for it (unless --on-lost=ignore was given)
  126  the command cannot be executed
  127  the command was not found

The command sees NAVLOCK_NAME, NAVLOCK_MODE and NAVLOCK_FENCE, the fencing token: a number that is
larger for every later holder of the name, so that what the command writes to can refuse one that
comes too late. Of several locks, NAVLOCK_NAME and NAVLOCK_FENCE have one line each, in the order in
which the names were given. One that would be longer than 32 KiB is not set, nor is
NAVLOCK_NAME if it has a NUL character in it, or one of several names has a line end.

It also sees NAVLOCK_INSIDE, by which what it runs in turn says that it waits inside these locks: so
that it can be told if they wait for each other. What it leaves in the background, and does not wait
for, is better run without that variable (env -u NAVLOCK_INSIDE COMMAND &).

HUP, INT, QUIT and TERM are passed on to the command, unless it has them from the terminal already.
What was ignored when navlock was started, as nohup has it, stays ignored for both.";

/// Runs a command while holding a lock.
///
/// The lock is held until the command has ended, also if navlock itself is killed.
#[derive(Debug, Args)]
#[command(
    after_long_help = EXIT_CODES,
    override_usage = "navlock run [OPTIONS] NAME [--] COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] -l NAME [-l NAME]... [--] COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] NAME -c SHELL-COMMAND"
)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// Take the lock from whoever holds it.
    ///
    /// The holder's command, and all that the command has started, is told to end by SIGTERM, and is killed
    /// after five seconds, unless the holder chose otherwise (--on-lost, --grace). A command whose own
    /// navlock was killed is not told.
    #[arg(long, conflicts_with_all = ["shared", "nonblock"])]
    pub(crate) steal: bool,

    /// What to do with the command when its lock is lost.
    ///
    /// term: tell it to end, and kill it if that takes longer than --grace. kill: kill it at once. ignore:
    /// leave it alone; its exit code counts. The same is done with all that the command has started.
    #[arg(long, value_name = "HOW", value_enum, default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// How many seconds (fractions allowed) the command may take to end when its lock is lost.
    ///
    /// The default is 5. It is less where machines share the lock: there the command has to be killed
    /// before another machine can have the lock, so the margin of the broker's settings is the limit, and
    /// a longer time is refused.
    #[arg(
        long, value_name = "SECS", value_parser = values::seconds, allow_negative_numbers = true
    )]
    pub(crate) grace: Option<Duration>,

    /// Release the lock if navlock is killed, even if the command still runs.
    #[arg(short = 'o', long)]
    pub(crate) close: bool,

    /// Become the command instead of waiting for it.
    ///
    /// No process stays beside the command, and the command has the process id of navlock. It holds the
    /// lock until it and all that it has started have ended. Nobody tells the command when the lock is
    /// stolen, and nobody ends it then, so this is refused where machines share the locks.
    #[arg(short = 'F', long, conflicts_with_all = ["close", "on_lost", "grace"])]
    pub(crate) no_fork: bool,

    /// Show the command's arguments to everybody who can see the lock.
    ///
    /// Without this, others see the program and the text of --why only, because arguments may be secret.
    /// On etcd, the arguments are seen on all machines that share the lock.
    #[arg(long)]
    pub(crate) show_args: bool,

    /// Run this line with the shell.
    ///
    /// The shell is $SHELL, or /bin/sh if that is not set; on Windows it is cmd.
    #[arg(short = 'c', long = "command", value_name = "SHELL-COMMAND", allow_hyphen_values = true)]
    pub(crate) shell_command: Option<OsString>,

    /// The lock's name, then the command and its arguments.
    ///
    /// A name is any text that does not start with '-'. If names are given with -l, the command comes first.
    #[arg(value_name = "NAME", trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}

/// What to ask for, and for how long.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// A lock's name. Can be given several times.
    #[arg(short, long = "lock", value_name = "NAME", value_parser = values::name())]
    pub(crate) locks: Vec<ResourceName>,

    /// Hold the lock together with others that share it.
    #[arg(short, long, conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// Hold the lock alone. This is the default.
    #[arg(short = 'x', short_alias = 'e', long)]
    pub(crate) exclusive: bool,

    /// Exit with 1 instead of waiting, if the lock cannot be had at once.
    ///
    /// A broker that takes over from a killed one grants nothing for a moment; that counts as well. With
    /// etcd, another machine may keep the name and not answer: then the exit comes after 2.5 s at most for
    /// each such name (after half of the time to live, if that is less). If no broker can be reached within
    /// two seconds, the exit code is 69.
    #[arg(short, long, alias = "nb", conflicts_with = "timeout")]
    pub(crate) nonblock: bool,

    /// Wait for no longer than this many seconds (fractions allowed).
    ///
    /// When the time is over, exit with 1. The time is for the broker and all locks together. If no broker
    /// can be reached, exit with 69, which is known after two seconds at the earliest.
    #[arg(
        short = 'w', long, alias = "wait", value_name = "SECS", value_parser = values::seconds,
        allow_negative_numbers = true
    )]
    pub(crate) timeout: Option<Duration>,

    /// Exit with N instead of 1 if the lock cannot be had in time.
    #[arg(short = 'E', long, value_name = "N", default_value_t = crate::exit::CONFLICT)]
    pub(crate) conflict_exit_code: u8,

    /// Exit with N instead of waiting for ever in a deadlock.
    ///
    /// A deadlock is a cycle: each command in it waits for a lock that the next one holds. After a second
    /// or two, all of them say so. With this option, the one whose request closed the cycle exits with N.
    #[arg(long, value_name = "N", conflicts_with_all = ["nonblock", "timeout"])]
    pub(crate) deadlock_exit_code: Option<u8>,

    /// What the lock is for, as shown to those who wait for it and in 'navlock query'.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) why: String,

    /// A detail that is shown where --why is, as in url=http://localhost:3000.
    ///
    /// Can be given several times, each time with another key.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::meta)]
    pub(crate) meta: Vec<(String, String)>,
}

/// What to do with a command whose lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    #[value(name = "term")]
    Terminate,
    Kill,
    Ignore,
}

impl RequestArgs {
    /// Adds what is said of the request to what the process says of itself.
    ///
    /// # Errors
    ///
    /// If a key was given twice, or there are more than a broker takes.
    pub(crate) fn describe(&self, info: &mut AgentInfo) -> Result<(), Failure> {
        let mut keys = HashSet::new();
        if let Some((twice, _)) = self.meta.iter().find(|(key, _)| !keys.insert(key)) {
            let twice = spelled(OsStr::new(twice));
            return Err(Failure::new(USAGE, format_args!("--meta has the key {twice} twice")));
        }
        if self.meta.len() > MAX_META {
            let message = format_args!("--meta was given more than {MAX_META} times");
            return Err(Failure::new(USAGE, message));
        }
        info.why.clone_from(&self.why);
        info.meta.clone_from(&self.meta);
        Ok(())
    }

    pub(crate) fn mode(&self) -> Mode {
        if self.shared { Mode::Shared } else { Mode::Exclusive }
    }
}
