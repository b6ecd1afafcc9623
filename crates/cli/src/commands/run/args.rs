//! The arguments of `navlock run`.

use std::{ffi::OsString, time::Duration};

use clap::Args;

use crate::args::{OnLost, RequestArgs, values};

const AFTER_HELP: &str = "\
Names and the command:
  NAME [--] COMMAND [ARGUMENT]...         one lock; the rest is the command, as for flock(1)
  -l NAME... [--] COMMAND [ARGUMENT]...   several locks: -l before each name; with --any one of them
  NAME -c TEXT, or -l NAME... -c TEXT     a line for the shell
Options stand before the name. If the command itself has a \"--\" among its arguments, write another
one after the name: NAME -- COMMAND ARGUMENT -- ARGUMENT.

Several locks are taken one after the other. All programs take them in the same order, so programs
that take several locks at once cannot wait for each other in a cycle. If one of the locks cannot be
had, none is held.

Exit codes:
  the command's own; 128+n if signal n ended it
  1    -n was given and a lock was not free, or the time of -w is over; -E chooses another number
  N    of --deadlock-exit-code, if the command would have waited for ever
  64   the arguments are wrong, or exceed a limit of the broker
  69   the broker cannot be reached or started
       or the disk has no room for the file that says what the command holds
       or the store did not answer before the request was in the queue
  70   the command already runs inside one of the locks, and would wait for itself; see --reentrant
  75   a lock was lost, so the command was ended or not started (with --on-lost=ignore, a command
       that runs goes on, and the code is its own)
  126  the command cannot be executed
  127  the command was not found

The command sees these variables:
  NAVLOCK_NAME    the name
  NAVLOCK_MODE    exclusive or shared; if names differ in this, a line for each
  NAVLOCK_FENCE   the fencing token, a number that is larger for every later holder of the name
  NAVLOCK_INSIDE  the locks under which the command runs
The resource that the command writes to can compare tokens, and refuse a holder that comes too late.
With several locks, NAVLOCK_NAME and NAVLOCK_FENCE have one line for each, in the order in which the
names were given. Where one command runs inside another, the outer locks come first. A variable
that would be longer than 32 KiB is not set. NAVLOCK_NAME is not set either if one of several names
contains a line end.

A navlock that the command starts reads NAVLOCK_INSIDE, and says that it waits inside these locks.
This is how deadlocks are found. Where the variable is missing, the system tells who has started
whom. The command does not wait for processes that it leaves in the background, so start these so:
NAVLOCK_INSIDE=none COMMAND &

navlock passes signals on to the command, unless the terminal has already sent the signal to the
command. It does not pass on those that stop a process, or tell of its own faults and limits.
Signals that were ignored when navlock was started, as under nohup, stay ignored for navlock and
for the command.

If the command ends by itself, processes that it has left behind hold nothing. If a signal has ended
the command, or TERM, QUIT, HUP or INT was passed on to it, these processes get the signal too, and
the lock is held until the last of them has ended. Another signal or the end of --grace kills them.
HUP and INT do not count if the command goes on for longer than --grace.";

/// Runs a command while holding a lock.
///
/// The lock is held until the command has ended, also if navlock itself is killed.
#[derive(Debug, Args)]
#[command(
    after_long_help = AFTER_HELP,
    override_usage = "navlock run [OPTIONS] NAME [--] COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] -l NAME [-l NAME]... [--] COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] NAME -c SHELL-COMMAND"
)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) request: RequestArgs,

    /// Take the lock from its holders.
    ///
    /// The command of a holder, and all processes that it has started, are told to end by SIGTERM, and are
    /// killed after five seconds. The holder can choose otherwise by --on-lost and --grace. A command whose
    /// navlock was killed is not told. Between machines, one that owns the name and does not answer is waited
    /// for, until it cannot grant the name any more: for its time to live at most.
    #[arg(long, conflicts_with_all = ["shared", "nonblock"])]
    pub(super) steal: bool,

    /// Take whichever of the names is free first.
    ///
    /// The names are given with -l. If several are free, the first of them is taken. Otherwise the request stands
    /// in the queue of each name. `NAVLOCK_NAME` says which one the command has.
    #[arg(long, conflicts_with_all = ["steal", "replace", "reentrant", "deadlock_exit_code"])]
    pub(super) any: bool,

    /// End the command that holds the lock, wait until all that it has started has ended, and take its place.
    ///
    /// The command is told to end by SIGTERM, and is killed after the time of --grace. Nobody runs beside it,
    /// as may happen with --steal. Others who wait keep their places: who is granted the lock first is ended as
    /// well. This is refused if the holder is no command of 'navlock run', or if machines share the locks.
    #[arg(long, conflicts_with_all = ["shared", "nonblock", "steal"])]
    pub(super) replace: bool,

    /// What to do with the command when its lock is lost.
    ///
    /// term tells the command to end, and kills it if that takes longer than --grace. kill kills it at once.
    /// ignore leaves it alone, and its exit code counts. The same is done with all processes that the command
    /// has started.
    #[arg(long, value_name = "HOW", value_enum, default_value = "term")]
    pub(super) on_lost: OnLost,

    /// How long the command may take to end when its lock is lost: seconds, or a time as in 1m30s.
    ///
    /// After a signal, this is how long the processes may take to end that the command leaves behind. The
    /// default is 5. If machines share the lock and its lease ends, the command has to be killed before
    /// another machine can have the lock. The limit is then three quarters of the margin in the broker's
    /// settings, or the margin less 0.25 s if that is shorter. The default is cut to this limit. A longer
    /// --grace is refused.
    #[arg(
        long, value_name = "TIME", value_parser = values::time, allow_negative_numbers = true
    )]
    pub(super) grace: Option<Duration>,

    /// Run the command without taking the lock if this already runs inside of it.
    ///
    /// It does if 'navlock run' has started this script with the lock, or 'navlock hold' holds the lock for
    /// it. Without this option, such a request is refused with the exit code 70, because it would wait for
    /// itself. Of several names, those are taken that are not held.
    #[arg(long)]
    pub(super) reentrant: bool,

    /// Release the lock if navlock is killed, even if the command still runs.
    #[arg(short = 'o', long)]
    pub(super) close: bool,

    /// Become the command instead of waiting for it.
    ///
    /// No process stays beside the command, and the command has the process id of navlock. The lock is held
    /// until the command and all processes that it has started have ended. Nobody tells or ends the command
    /// when the lock is stolen. So this option is refused where machines share the locks.
    #[arg(short = 'F', long, conflicts_with_all = ["close", "on_lost", "grace"])]
    pub(super) no_fork: bool,

    /// Show the command's arguments to everybody who can see the lock.
    ///
    /// Without this option, others see only the program and the text of --why, because arguments may be
    /// secret. All machines that share the lock see the arguments. With --system, the other users of
    /// the group see the program alone in any case.
    #[arg(long)]
    pub(super) show_args: bool,

    /// Run this line with the shell.
    ///
    /// The shell is $SHELL, or /bin/sh if $SHELL is not set. On Windows it is cmd.
    #[arg(short = 'c', long = "command", value_name = "SHELL-COMMAND", allow_hyphen_values = true)]
    pub(super) shell_command: Option<OsString>,

    /// The lock's name, then the command and its arguments.
    ///
    /// A name is any text that does not start with '-'. If names are given with -l, the command comes first.
    #[arg(value_name = "NAME", trailing_var_arg = true)]
    pub(super) words: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    impl Examples for RunArgs {
        const LINES: &'static [&'static str] = &["run {} db true"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--steal"], |run| run.steal),
            (&["--on-lost kill"], |run| run.on_lost == OnLost::Kill),
            (&["--on-lost=ignore"], |run| run.on_lost == OnLost::Ignore),
            (&["--grace 1.5"], |run| run.grace == Some(Duration::from_millis(1500))),
            (&["--any"], |run| run.any),
            (&["--replace"], |run| run.replace),
            (&["--reentrant"], |run| run.reentrant),
            (&["-o", "--close"], |run| run.close),
            (&["-F", "--no-fork"], |run| run.no_fork),
            (&["--show-args"], |run| run.show_args),
            (&["-c ls", "--command ls"], |run| run.shell_command.as_deref() == Some("ls".as_ref())),
            (&["-c -x"], |run| run.shell_command.as_deref() == Some("-x".as_ref())),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<RunArgs>();
    }

    #[test]
    fn a_command_whose_lock_is_lost_is_told_to_end_if_nobody_says_otherwise() {
        assert_eq!(parsed::<RunArgs>("run db true").on_lost, OnLost::Terminate);
        check_refusal(
            "run --on-lost stop db true",
            ErrorKind::InvalidValue,
            &["--on-lost", "stop"],
        );
    }

    #[test]
    fn a_grace_is_not_negative() {
        check_refusal("run --grace -1 db true", ErrorKind::ValueValidation, &["--grace", "-1"]);
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for (flags, named) in [
            ("--steal -s", ["--steal", "--shared"]),
            ("--steal -n", ["--steal", "--nonblock"]),
            ("--replace --steal", ["--replace", "--steal"]),
            ("-F -o", ["--no-fork", "--close"]),
            ("-F --on-lost kill", ["--no-fork", "--on-lost"]),
            ("-F --grace 1", ["--no-fork", "--grace"]),
        ] {
            let line = format!("run {flags} db true");
            check_refusal(&line, ErrorKind::ArgumentConflict, &named);
        }
    }
}
