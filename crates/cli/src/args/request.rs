//! The arguments of every command that asks for locks.

use std::{
    collections::{BTreeMap, HashSet},
    env,
    ffi::OsStr,
    time::Duration,
};

use clap::{ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use navlock::{AgentInfo, Mode, ResourceName};
use navlock_broker::MAX_META;

use super::values::{self, spelled};
use crate::exit::{Failure, USAGE};

/// The variable with the time that a request may wait, unless an option says so.
pub(crate) const TIMEOUT: &str = "NAVLOCK_TIMEOUT";

/// What to ask for, and for how long.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    // This comes first, because the other fields take their words out of what was parsed.
    #[command(flatten)]
    modes: Modes,

    /// A lock's name.
    ///
    /// This option can be given several times.
    #[arg(short, long = "lock", value_name = "NAME", value_parser = values::name())]
    pub(crate) locks: Vec<ResourceName>,

    /// Hold the lock together with others that share it.
    ///
    /// With -s and -x before names of -l, each name is held as the last of them before it says.
    #[arg(short, long, action = ArgAction::Append, num_args = 0, default_missing_value = "true")]
    shared: Vec<bool>,

    /// Hold the lock alone (the default).
    #[arg(
        short = 'x', short_alias = 'e', long, action = ArgAction::Append, num_args = 0,
        default_missing_value = "true"
    )]
    exclusive: Vec<bool>,

    /// Exit with 1 instead of waiting, if the lock cannot be had at once.
    ///
    /// This includes the moment in which a new broker takes over from a killed one and grants nothing yet.
    /// Another machine may own the name and not answer. The exit then takes 2.5 s at most for each
    /// such name, or half of the time to live if that is less. If no broker can be reached within two seconds,
    /// the exit code is 69.
    #[arg(short, long, alias = "nb", conflicts_with = "timeout")]
    pub(crate) nonblock: bool,

    /// Wait for this time at most: seconds, or a time with units, as in 1m30s.
    ///
    /// The default is the time in the variable `NAVLOCK_TIMEOUT`, or else no limit. When the time is over, the
    /// exit code is 1. The time is for reaching the broker and for all locks together. If no broker can be
    /// reached in this time, the exit code is 69. navlock tries for two seconds at least. No client starts the
    /// broker of --system: if it does not run, the command exits with 69 at once.
    #[arg(
        short = 'w', long, alias = "wait", value_name = "TIME", value_parser = values::time,
        allow_negative_numbers = true
    )]
    pub(crate) timeout: Option<Duration>,

    /// Exit with N instead of 1 if the lock cannot be had in time.
    #[arg(short = 'E', long, value_name = "N", default_value_t = crate::exit::CONFLICT)]
    pub(crate) conflict_exit_code: u8,

    /// Exit with N instead of waiting for ever in a deadlock.
    ///
    /// A deadlock is a cycle: each command in it waits for a lock that the next one holds. After a second
    /// or two, all of these commands report it. A command with this option exits with N; if several have it, the
    /// one of them that asked last.
    #[arg(long, value_name = "N", conflicts_with_all = ["nonblock", "timeout"])]
    pub(crate) deadlock_exit_code: Option<u8>,

    /// Allow an empty name.
    ///
    /// Without this option an empty name is refused, because it usually is a variable that is not set.
    #[arg(long)]
    pub(crate) empty_name: bool,

    /// What the lock is for; waiters and 'navlock query' show it.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) why: String,

    /// A detail that is shown beside --why, as in url=http://localhost:3000.
    ///
    /// This option can be given several times, each time with another key.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::meta)]
    pub(crate) meta: Vec<(String, String)>,
}

impl RequestArgs {
    /// How long to wait at most, if there is a limit: the option's time, or that of `NAVLOCK_TIMEOUT`.
    ///
    /// # Errors
    ///
    /// If the variable is no time.
    pub(crate) fn limit(&self) -> Result<Option<Duration>, Failure> {
        let is_given = self.timeout.is_some() || self.deadlock_exit_code.is_some();
        let default = || env::var(TIMEOUT).ok().filter(|text| !is_given && !text.is_empty());
        match default() {
            _ if self.nonblock => Ok(Some(Duration::ZERO)),
            Some(text) => values::time(&text)
                .map(Some)
                .map_err(|wrong| Failure::new(USAGE, format_args!("{TIMEOUT}: {text:?}: {wrong}"))),
            None => Ok(self.timeout),
        }
    }

    /// Refuses an empty name, unless the arguments allow it.
    ///
    /// # Errors
    ///
    /// If one of the names is empty.
    pub(crate) fn check_names(&self, names: &[ResourceName]) -> Result<(), Failure> {
        if self.empty_name || names.iter().all(|name| !name.as_bytes().is_empty()) {
            return Ok(());
        }
        let message = "a name is empty, as a variable is that is not set; if you mean the empty \
                       name, add --empty-name";
        Err(Failure::new(USAGE, message))
    }

    /// Adds what the arguments say of the request to the description of the process.
    ///
    /// # Errors
    ///
    /// If a key was given twice, or if there are more keys than a broker takes.
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

    /// The mode of names that were given without -l, and of all names if none was given another.
    pub(crate) fn mode(&self) -> Mode {
        if self.shared.is_empty() { Mode::Exclusive } else { Mode::Shared }
    }

    /// The mode in which this name is asked for.
    pub(crate) fn mode_of(&self, name: &ResourceName) -> Mode {
        let mut given = self.modes.0.iter().filter(|(of, _)| of == name).map(|(_, mode)| *mode);
        let first = given.next().unwrap_or_else(|| self.mode());
        // An exclusive lock is enough for both.
        given.fold(first, |mode, other| if mode == Mode::Shared { other } else { mode })
    }
}

/// How several names are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// All of them, or none.
    All,
    /// The one that is free first.
    Any,
    /// All of them, from their holders.
    Stolen,
}

/// The modes of names of -l, if both modes were given.
#[derive(Debug, Default)]
struct Modes(Vec<(ResourceName, Mode)>);

impl Args for Modes {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Modes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let places = |id: &str| matches.indices_of(id).into_iter().flatten();
        let flags =
            |id: &'static str| matches.contains_id(id).then(|| places(id)).into_iter().flatten();
        let modes = flags("shared").map(|at| (at, Mode::Shared));
        let modes: BTreeMap<_, _> =
            modes.chain(flags("exclusive").map(|at| (at, Mode::Exclusive))).collect();
        if modes.values().all(|mode| *mode == Mode::Shared)
            || modes.values().all(|mode| *mode == Mode::Exclusive)
        {
            return Ok(Self::default());
        }
        let names: Vec<ResourceName> =
            matches.get_many("locks").into_iter().flatten().cloned().collect();
        let at: Vec<usize> = flags("locks").collect();
        let mode_before = |at: &usize| modes.range(..at).next_back().map(|(_, mode)| *mode);
        let is_between =
            |(one, other): (&usize, &usize)| at.iter().any(|at| one < at && at < other);
        let ends = modes.keys().chain([&usize::MAX]).skip(1);
        if !modes.keys().zip(ends).all(is_between) || at.iter().any(|at| mode_before(at).is_none())
        {
            let message = "-s and -x together: write each of them before the -l of the names that it is for, as \
                           in -s -l rates -x -l account\n";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
        let modes = at.iter().filter_map(mode_before);
        Ok(Self(names.into_iter().zip(modes).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    impl Examples for RequestArgs {
        const LINES: &'static [&'static str] =
            &["run {} db true", "wait {} db", "hold {} --ttl 1 db"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["-l a -l b", "-la -lb", "--lock a --lock=b"], |request| request.locks == ["a", "b"]),
            (&["-s", "--shared"], |request| request.mode() == Mode::Shared),
            (&["-x", "-e", "--exclusive"], |request| !request.exclusive.is_empty()),
            (&["-s -l a -x -l b -l c", "-s -l a -x -l b -x -l c"], |request| {
                let modes = ["a", "b", "c"].map(|name| request.mode_of(&name.try_into().unwrap()));
                modes == [Mode::Shared, Mode::Exclusive, Mode::Exclusive]
            }),
            (&["-n", "--nonblock", "--nb"], |request| request.nonblock),
            (&["-w 1.5", "--timeout 1.5s", "--wait=1s500ms"], |request| {
                request.timeout == Some(Duration::from_millis(1500))
            }),
            (&["-E 7", "--conflict-exit-code 7"], |request| request.conflict_exit_code == 7),
            (&["--deadlock-exit-code 7"], |request| request.deadlock_exit_code == Some(7)),
            (&["--empty-name"], |request| request.empty_name),
            (&["--why backup"], |request| request.why == "backup"),
            (&["--meta a=1 --meta b=2=3"], |request| {
                request.meta == [("a", "1"), ("b", "2=3")].map(|(key, is)| (key.into(), is.into()))
            }),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<RequestArgs>();
    }

    #[test]
    fn without_flags_a_request_is_exclusive_and_waits_for_ever() {
        let request: RequestArgs = parsed("run db true");
        assert_eq!(request.mode(), Mode::Exclusive);
        assert!(!request.nonblock && request.timeout.is_none());
        assert_eq!(request.conflict_exit_code, 1);
        assert_eq!(request.deadlock_exit_code, None);
    }

    #[test]
    fn a_request_that_contradicts_itself_is_refused() {
        for (flags, named) in [
            ("-n -w 1", ["--nonblock", "--timeout"]),
            ("--deadlock-exit-code 7 -n", ["--deadlock-exit-code", "--nonblock"]),
            ("--deadlock-exit-code 7 -w 1", ["--deadlock-exit-code", "--timeout"]),
        ] {
            for line in RequestArgs::LINES {
                check_refusal(&line.replace("{}", flags), ErrorKind::ArgumentConflict, &named);
            }
        }
    }

    #[test]
    fn both_modes_are_given_each_before_its_names() {
        for flags in ["-s -x", "-s -x -l a", "-l a -s -l b -x -l c", "-s -l a -x"] {
            for line in RequestArgs::LINES {
                check_refusal(&line.replace("{}", flags), ErrorKind::ArgumentConflict, &[]);
            }
        }
    }

    #[test]
    fn a_value_that_a_flag_cannot_have_is_refused() {
        for (flag, named) in [
            ("--lock=-x", "--lock"),
            ("-w -1", "--timeout"),
            ("-E 256", "--conflict-exit-code"),
            ("--deadlock-exit-code x", "--deadlock-exit-code"),
            ("--meta url", "--meta"),
        ] {
            for line in RequestArgs::LINES {
                check_refusal(&line.replace("{}", flag), ErrorKind::ValueValidation, &[named]);
            }
        }
    }

    #[test]
    fn of_two_values_none_is_preferred() {
        for line in RequestArgs::LINES {
            let line = line.replace("{}", "-w 1 --wait 2");
            check_refusal(&line, ErrorKind::ArgumentConflict, &["--timeout"]);
        }
    }
}
