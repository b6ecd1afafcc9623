//! How the names and the command of `navlock run` are told apart.

use std::{
    collections::{HashSet, VecDeque},
    ffi::{OsStr, OsString},
    io, iter, mem,
};

use navlock::ResourceName;
use navlock_platform::shell;

use super::RunArgs;
use crate::{
    args::values::{self, spelled},
    exit::{Failure, USAGE},
};

/// What has to be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A program with its arguments.
    Program(OsString, Vec<OsString>),
    /// A line for the shell.
    Shell(OsString),
}

impl Work {
    /// The work as the shell does it, if it could not be started with this error because it is a script without
    /// `#!`. Other programs that start commands do the same.
    pub(super) fn as_script(&self, error: &io::Error) -> Option<Self> {
        let Self::Program(program, arguments) = self else { return None };
        let script = shell::script(program, error)?;
        let arguments = iter::once(script.into()).chain(arguments.iter().cloned());
        Some(Self::Program("/bin/sh".into(), arguments.collect()))
    }
}

impl RunArgs {
    /// The names, each once and in the order given, and what to run under their locks.
    ///
    /// A `--` is refused unless it comes right after the name. In earlier versions, all words before a
    /// `--` were names. In flock(1), the `--` belongs to the command. To follow one of them would run the
    /// wrong command for users of the other.
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

/// What has to be run under the lock of this name. `words` follow the name.
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
        // flock(1) has this form.
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
            "no command was given; add one after the name (a descriptor, as in 'flock {name}', cannot \
             be locked: the lock is held while a command runs, or by 'navlock hold --while-pid $$ NAME' \
             for the rest of a script)"
        ))),
        None => Err(usage("no command was given; add one after the name")),
    }
}

fn usage(what: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, format_args!("{what}; see 'navlock run --help'"))
}

#[cfg(test)]
mod tests {
    use navlock::Mode;

    use super::*;
    use crate::{
        commands::{Cli, Command},
        parse::parse_from,
    };

    fn parse(line: &[&str]) -> RunArgs {
        let line: Vec<_> = ["navlock", "run"].iter().chain(line).map(OsString::from).collect();
        match parse_from(&line) {
            Ok(Cli { command: Command::Run(run), .. }) => run,
            other => panic!("{other:?}"),
        }
    }

    fn words(line: &[&str]) -> Result<(Vec<String>, Work), String> {
        let read = parse(line).names_and_work();
        let (names, work) = read.map_err(|failure| format!("{failure:?}"))?;
        Ok((names.iter().map(ToString::to_string).collect(), work))
    }

    fn program(words: &[&str]) -> Work {
        Work::Program(words[0].into(), words[1..].iter().map(OsString::from).collect())
    }

    #[test]
    fn words_after_the_name_are_the_command_with_its_own_options() {
        for arguments in [
            &["-s", "db", "sh", "-n", "--steal", "-l", "x", "-c"][..],
            &["-s", "db", "--", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-s", "--", "db", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-s", "--", "db", "--", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-s", "-l", "db", "sh", "-n", "--steal", "-l", "x", "-c"],
            &["-l", "db", "-s", "--", "sh", "-n", "--steal", "-l", "x", "-c"],
        ] {
            let mut run = parse(arguments);
            let is_shared = run.request.mode() == Mode::Shared;
            assert!(is_shared && !run.request.nonblock && !run.steal, "{arguments:?}");
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
        // That option belongs to the command.
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
}
