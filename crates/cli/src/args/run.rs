//! The arguments of `navlock run`, and how names and the command are told apart.

use std::{
    collections::{HashSet, VecDeque},
    ffi::{OsStr, OsString},
    mem,
    time::Duration,
};

use clap::{Args, ValueEnum};
use navlock::{AgentInfo, Mode, ResourceName};

use super::values;
use crate::{
    exit::{Failure, USAGE},
    text::{clipped, printable},
};

/// How many keys a broker takes from an agent.
const MOST_META: usize = 16;

/// How much of a word is repeated in a message, in columns.
const LONGEST_WORD: usize = 60;

pub(super) const EXIT_CODES: &str = "\
Names and the command:
  NAME [--] COMMAND [ARGUMENT]...         one lock; the rest is the command, as for flock(1)
  -l NAME... [--] COMMAND [ARGUMENT]...   several locks: -l before each name
  NAME -c TEXT, or -l NAME... -c TEXT     a line for the shell
Options stand before the name. If the command has a \"--\" among its own arguments, the name has one
after it as well: NAME -- COMMAND ARGUMENT -- ARGUMENT. Several locks are taken one after the other,
in the one order that all programs use: those that take several at once cannot wait for each other
in a circle. If one of them cannot be had, none is held.

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
    after_help = EXIT_CODES,
    override_usage = "navlock run [OPTIONS] NAME [--] COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] -l NAME [-l NAME]... [--] COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] NAME -c SHELL-COMMAND"
)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// Take the lock from whoever holds it: their commands, and what those have started, are told to
    /// end by SIGTERM, and after five seconds by SIGKILL, unless they chose otherwise. Not so a command
    /// whose own navlock was killed.
    #[arg(long, conflicts_with_all = ["shared", "nonblock"])]
    pub(crate) steal: bool,

    /// What becomes of the command, and of all that it has started, when the lock is lost: told to end,
    /// and killed if that takes too long; killed at once; or left alone, in which case its exit code
    /// counts.
    #[arg(long, value_name = "HOW", value_enum, default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// How many seconds (fractions allowed) they may take to end when they are told to. 5 if this is
    /// not given, but where machines share the lock, less: all have to be killed before another one can
    /// have it. So the margin of the broker's settings bounds it, and what is longer is refused.
    #[arg(
        long, value_name = "SECS", value_parser = values::seconds, allow_negative_numbers = true
    )]
    pub(crate) grace: Option<Duration>,

    /// Have the command not hold the lock by itself: if navlock is killed, the lock is free.
    #[arg(short = 'o', long)]
    pub(crate) close: bool,

    /// Become the command instead of waiting for it: no process stays beside it, and its number is
    /// that of navlock. It holds the lock by itself, until it and what it has started have ended. But
    /// nobody is there to tell it when the lock is stolen, nor to end it then, so this is refused
    /// where machines share the locks.
    #[arg(short = 'F', long, conflicts_with_all = ["close", "on_lost", "grace"])]
    pub(crate) no_fork: bool,

    /// Show the command's arguments to all who look who holds the lock, on all machines that share
    /// it: without this they see the program and --why only, because arguments may be secret.
    #[arg(long)]
    pub(crate) show_args: bool,

    /// Run this with $SHELL -c, or /bin/sh -c; on Windows with cmd /c.
    #[arg(short = 'c', long = "command", value_name = "SHELL-COMMAND", allow_hyphen_values = true)]
    pub(crate) shell_command: Option<OsString>,

    /// The lock's name, unless names are given with -l: any text that does not start with '-'. Then
    /// the command and its arguments.
    #[arg(value_name = "NAME", trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}

/// What to ask for, and for how long.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// A lock's name. For several locks, give it several times.
    #[arg(short, long = "lock", value_name = "NAME", value_parser = values::name())]
    pub(crate) locks: Vec<ResourceName>,

    /// Hold the lock together with others that share it.
    #[arg(short, long, conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// Hold the lock alone. This is the default.
    #[arg(short = 'x', short_alias = 'e', long)]
    pub(crate) exclusive: bool,

    /// Do not wait: if the lock cannot be had at once, exit with 1, also if the broker has nothing
    /// to give for the moment because it takes over from one that was killed. With etcd, that is known
    /// after 2.5 s at most (half of the time to live, if that is less) for each name that another
    /// machine keeps which does not answer. If the broker cannot be reached within two seconds, exit
    /// with 69.
    #[arg(short, long, alias = "nb", conflicts_with = "timeout")]
    pub(crate) nonblock: bool,

    /// Wait for no longer than this many seconds (fractions allowed), for the broker and all locks
    /// together, then exit with 1, or with 69 if there is no broker to be reached, which may take two
    /// seconds at least.
    #[arg(
        short = 'w', long, alias = "wait", value_name = "SECS", value_parser = values::seconds,
        allow_negative_numbers = true
    )]
    pub(crate) timeout: Option<Duration>,

    /// Exit with this instead of 1.
    #[arg(short = 'E', long, value_name = "N", default_value_t = crate::exit::CONFLICT)]
    pub(crate) conflict_exit_code: u8,

    /// If it waits for somebody who waits for what is held around it, and so on, it would wait for ever.
    /// That is said after a second or two, to all of them. With this, the one that came last exits with N
    /// instead of waiting on.
    #[arg(long, value_name = "N", conflicts_with_all = ["nonblock", "timeout"])]
    pub(crate) deadlock_exit_code: Option<u8>,

    /// What it is for, to be seen by those who wait, and in 'navlock query'.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) why: String,

    /// What else there is to know of it, as in url=http://localhost:3000, to be seen where --why is. Can
    /// be given several times, each time with another key.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::meta)]
    pub(crate) meta: Vec<(String, String)>,
}

/// What to do with a command whose lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    Term,
    Kill,
    Ignore,
}

/// What is to be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A program with its arguments.
    Program(OsString, Vec<OsString>),
    /// A line for the shell.
    Shell(OsString),
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
        if self.meta.len() > MOST_META {
            let message = format_args!("--meta was given more than {MOST_META} times");
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

impl RunArgs {
    /// The names, each once and in the order given, and what to run under their locks.
    ///
    /// A `--` further on than right after the name is refused: with it, earlier versions took all
    /// words before it for names, flock(1) takes it for the command's, and either would run
    /// something else than who meant the other.
    pub(crate) fn names_and_work(&mut self) -> Result<(Vec<ResourceName>, Work), Failure> {
        let mut names = mem::take(&mut self.request.locks);
        let shell_command = self.shell_command.take();
        let mut words = VecDeque::from(mem::take(&mut self.words));
        if names.is_empty() {
            let Some(word) = words.pop_front() else {
                return Err(usage("no name was given; give one, and a command after it"));
            };
            names.push(values::to_name(&word).map_err(usage)?);
            return Ok((names, work_after(&word, words, shell_command)?));
        }
        let mut known = HashSet::with_capacity(names.len());
        names.retain(|name| known.insert(name.clone()));
        let work = match (shell_command, words.pop_front()) {
            (None, None) => return Err(usage("no command was given; add one after the names")),
            (None, Some(program)) => Work::Program(program, words.into()),
            (Some(text), None) => Work::Shell(text),
            (Some(_), Some(word)) => {
                return Err(usage(format_args!(
                    "there are names with -l, a command with -c, and {}; write '-l {0}' if that is \
                     a name as well",
                    spelled(&word)
                )));
            }
        };
        Ok((names, work))
    }
}

/// What is to be run under the lock of this name, given the words after that.
fn work_after(
    name: &OsStr,
    mut words: VecDeque<OsString>,
    shell_command: Option<OsString>,
) -> Result<Work, Failure> {
    let name = spelled(name);
    if let Some(text) = shell_command {
        return match words.front() {
            None => Ok(Work::Shell(text)),
            Some(word) => Err(usage(format_args!(
                "there is a command with -c, and {} after the name; for several locks write \
                 'navlock run -l {name} -l {0} -c …'",
                spelled(word)
            ))),
        };
    }
    let escape = words.iter().position(|word| word == "--");
    match (words.front().and_then(|word| word.to_str()), escape) {
        (Some("--"), _) => drop(words.pop_front()),
        // As flock(1) has it.
        (Some("-c" | "--command"), _) => {
            return match words.make_contiguous() {
                [_, text] => Ok(Work::Shell(mem::take(text))),
                _ => Err(usage("-c takes one argument: quote the shell's command")),
            };
        }
        (Some(option), _) if option.starts_with('-') => {
            return Err(usage(format_args!(
                "'{}' stands where the command is to be; options stand before the name, as in \
                 'navlock run {0} {name} …'",
                spelled(OsStr::new(option))
            )));
        }
        (_, Some(escape)) => {
            let spell = |words: &mut dyn Iterator<Item = &OsString>, before: &str| {
                words.fold(String::new(), |line, word| line + before + &spelled(word))
            };
            let command = spell(&mut words.iter().skip(escape + 1), " ");
            let names = spell(&mut words.iter().take(escape), " -l ");
            let whole = spell(&mut words.iter(), " ");
            return Err(usage(format_args!(
                "this can be read in two ways, for the sake of the '--'; write \
                 'navlock run {name} --{whole}' for one lock and all the rest as its command, or \
                 'navlock run -l {name}{names} --{command}' for several locks"
            )));
        }
        _ => {}
    }
    match words.pop_front() {
        Some(program) => Ok(Work::Program(program, words.into())),
        None if name.parse::<u32>().is_ok() => Err(usage(format_args!(
            "no command was given; add one after the name (a descriptor like 'flock {name}' takes \
             cannot be locked: the lock is held while a command runs, or by 'navlock hold --while-pid $$ \
             NAME' for the rest of a script)"
        ))),
        None => Err(usage("no command was given; add one after the name")),
    }
}

/// A word as it would be typed into a shell.
fn spelled(word: &OsStr) -> String {
    let word = clipped(&printable(&word.to_string_lossy()), LONGEST_WORD);
    let is_plain = |char: char| char.is_alphanumeric() || "_-./:=@%+,…".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn usage(what: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, format_args!("{what}; see 'navlock run --help'"))
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::{super::*, *};

    fn parse(line: &[&str]) -> Result<RunArgs, ErrorKind> {
        let line: Vec<_> = ["navlock", "run"].iter().chain(line).map(OsString::from).collect();
        match parse_from(&line) {
            Ok(Cli { command: Command::Run(run), .. }) => Ok(run),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        }
    }

    fn words(line: &[&str]) -> Result<(Vec<String>, Work), String> {
        let read = parse(line).unwrap().names_and_work();
        let (names, work) = read.map_err(|failure| format!("{failure:?}"))?;
        Ok((names.iter().map(ToString::to_string).collect(), work))
    }

    fn program(words: &[&str]) -> Work {
        Work::Program(words[0].into(), words[1..].iter().map(OsString::from).collect())
    }

    #[test]
    fn what_follows_the_name_is_the_command_with_its_own_options() {
        for arguments in [
            &["-s", "db", "sh", "-n", "--steal", "-l", "x", "-c"][..],
            &["-s", "db", "--", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-s", "--", "db", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-s", "--", "db", "--", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-s", "-l", "db", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-l", "db", "-s", "--", "sh", "-n", "--steal", "-l", "x", "-c"],
        ] {
            let mut run = parse(arguments).unwrap();
            assert!(run.request.shared && !run.request.nonblock && !run.steal, "{arguments:?}");
            let (names, work) = run.names_and_work().ok().unwrap();
            assert_eq!(names.len(), 1, "{arguments:?}");
            assert_eq!(names[0].as_str(), Some("db"), "{arguments:?}");
            assert_eq!(work, program(&["sh", "-n", "--steal", "-l", "x", "-c"]), "{arguments:?}");
        }
    }

    #[test]
    fn two_hyphens_right_after_the_name_leave_all_others_to_the_command() {
        let expected = (vec!["db".to_owned()], program(&["rm", "-f", "--", "a", "--"]));
        for line in [
            &["db", "--", "rm", "-f", "--", "a", "--"][..],
            &["--", "db", "--", "rm", "-f", "--", "a", "--"],
            &["-l", "db", "rm", "-f", "--", "a", "--"],
            &["-l", "db", "--", "rm", "-f", "--", "a", "--"],
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line:?}");
        }
    }

    #[test]
    fn two_hyphens_that_could_end_names_or_be_the_commands_are_refused() {
        for line in [
            &["db", "cat", "--", "/bin/date"][..],
            &["--", "db", "cat", "--", "/bin/date"],
            &["db", "rm", "-f", "--", "x"],
            &["a", "b", "--", "--"],
            &["a", "b", "--"],
        ] {
            let refused = words(line).unwrap_err();
            assert!(refused.contains("code: 64") && refused.contains("in two ways"), "{refused}");
        }
        let refused = words(&["db", "cat", "it's", "--", "/bin/date", "-u"]).unwrap_err();
        for spelling in [
            r"'navlock run db -- cat 'it'\\''s' -- /bin/date -u'",
            r"'navlock run -l db -l cat -l 'it'\\''s' -- /bin/date -u'",
        ] {
            assert!(refused.contains(spelling), "{refused}");
        }
    }

    #[test]
    fn several_locks_are_named_one_by_one() {
        let expected = (vec!["b".to_owned(), "a".to_owned()], program(&["cmd", "-x", "--", "y"]));
        for line in [
            &["-l", "b", "-l", "a", "--", "cmd", "-x", "--", "y"][..],
            &["-lb", "--lock=a", "-s", "--lock", "b", "cmd", "-x", "--", "y"],
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line:?}");
        }
    }

    #[test]
    fn a_line_for_the_shell_is_beside_a_name_or_names() {
        for (line, names) in [
            (&["a", "-c", "x -- y"][..], &["a"][..]),
            (&["a", "--command", "x -- y"], &["a"]),
            (&["-c", "x -- y", "a"], &["a"]),
            (&["-c", "x -- y", "--", "a"], &["a"]),
            (&["-l", "a", "-l", "b", "-c", "x -- y"], &["a", "b"]),
            (&["-c", "x -- y", "-l", "a", "-l", "b"], &["a", "b"]),
        ] {
            let (given, work) = words(line).unwrap();
            assert_eq!(given, names, "{line:?}");
            assert_eq!(work, Work::Shell("x -- y".into()), "{line:?}");
        }
        // That option is the command's.
        assert_eq!(words(&["a", "sh", "-c", "x"]).unwrap().1, program(&["sh", "-c", "x"]));
        assert_eq!(words(&["a", "--", "-c", "x"]).unwrap().1, program(&["-c", "x"]));
    }

    #[test]
    fn without_a_name_or_a_command_or_with_two_commands_there_is_nothing_to_do() {
        for line in [
            &[][..],
            &["a"],
            &["a", "--"],
            &["--"],
            &["--", "a"],
            &["--", "--", "a"],
            &["-c", "x"],
            &["-l", "a"],
            &["-l", "a", "--"],
            &["-c", "x", "a", "b"],
            &["-c", "x", "-l", "a", "b"],
            &["-c", "x", "a", "--", "y"],
            &["a", "-c"],
            &["a", "-c", "x", "y"],
            &["a", "-c", "x", "--", "y"],
            &["a", "-s", "true"],
        ] {
            let refused = words(line).unwrap_err();
            assert!(refused.contains("code: 64"), "{line:?}: {refused}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for flags in [["-s", "-x"], ["-s", "--steal"], ["-n", "--steal"], ["-n", "-w1"]] {
            let parsed = parse(&[flags[0], flags[1], "db", "true"]);
            assert_eq!(parsed.unwrap_err(), ErrorKind::ArgumentConflict, "{flags:?}");
        }
    }

    #[test]
    fn flocks_spellings_are_understood() {
        let run = parse(&["--nb", "-e", "-E", "7", "-o", "db", "true"]).unwrap();
        assert!(run.request.nonblock && run.request.exclusive && run.close);
        assert_eq!(run.request.conflict_exit_code, 7);
        let run = parse(&["--wait", "2", "db", "true"]).unwrap();
        assert_eq!(run.request.timeout, Some(Duration::from_secs(2)));
    }
}
