//! What `navlock` says, and what it does when nobody can read it.

#[cfg(unix)]
use std::{fs::File, process::Stdio};

#[cfg(unix)]
use crate::sandbox::finish;
use crate::sandbox::{Output, Sandbox};

fn said(sandbox: &Sandbox, arguments: &[&str]) -> String {
    sandbox.output(arguments).stderr
}

#[test]
fn a_query_with_a_name_longer_than_any_line_shows_its_ends() {
    let sandbox = Sandbox::new();
    // On Unix more than a pipe holds. Windows has no command lines of that length.
    let long = "n".repeat(if cfg!(windows) { 30_000 } else { 70_000 });
    let holders = [sandbox.hold(&[&long]), sandbox.hold(&["db"])];
    let shown = sandbox.written(&["query"]);
    assert!(shown.contains(&format!(" {}…{} ", "n".repeat(24), "n".repeat(23))), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 300), "{shown}");
    let json = Output::of(&mut sandbox.navlock(&["query", "--json"]));
    assert!(json.stdout.contains(&long));
    holders.into_iter().for_each(crate::sandbox::Holder::release);
}

#[test]
#[cfg(unix)]
fn a_message_that_cannot_be_written_changes_nothing() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    // The waiter waits long enough to say for what.
    let mut waiter = sandbox.navlock(&["run", "-w", "1.2", "db", "true"]);
    let status = finish(waiter.stderr(full()).spawn().unwrap()).status;
    assert_eq!(status.code(), Some(1));
    let mut wrong = sandbox.navlock(&["run", "db", "no-such-program-here"]);
    holder.release();
    assert_eq!(finish(wrong.stderr(full()).spawn().unwrap()).status.code(), Some(127));
}

#[test]
fn wrong_arguments_are_explained_in_one_line() {
    let sandbox = Sandbox::new();
    for (arguments, what) in [
        (
            &["run", "-w", "-1", "db", "true"][..],
            "invalid value '-1' for '--timeout <TIME>': give a time that is not negative, \
             as in 90, 1.5, 90s, 1m30s or 2h; see 'navlock run --help'",
        ),
        (
            &["run", "-s", "-x", "db", "true"],
            "-s and -x together: write each of them before the -l of the names that it is for, as in \
             -s -l rates -x -l account; see 'navlock run --help'",
        ),
        (&["run"], "no name was given; give one, and a command after it; see 'navlock run --help'"),
        (
            &["rum"],
            "unrecognized subcommand 'rum'; a similar subcommand exists: 'run'; see 'navlock --help'",
        ),
    ] {
        assert_eq!(said(&sandbox, arguments), format!("navlock: {what}\n"));
    }
}

#[test]
fn an_empty_variable_is_unset_and_a_bad_one_is_explained_in_one_line() {
    let sandbox = Sandbox::with_idle("");
    assert_eq!(sandbox.code(&["run", "db", "true"]), 0);
    let sandbox = Sandbox::with_idle("soon");
    let said = said(&sandbox, &["run", "db", "true"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("1m30s or 2h, or unset NAVLOCK_IDLE_SECS"), "{said}");
}

#[test]
#[cfg(unix)]
fn a_place_that_was_chosen_is_not_to_be_removed_or_closed() {
    let sandbox = Sandbox::new();
    for socket in ["/", "/dev/null", "/tmp/nobody/sock"] {
        let said = said(&sandbox, &["run", "--socket", socket, "db", "true"]);
        let advice = "; set NAVLOCK_SOCKET to a path in a directory that is yours alone\n";
        assert!(said.ends_with(advice), "{said}");
        assert!(!said.contains("remove") && !said.contains("chmod"), "{said}");
    }
}

#[test]
#[cfg(unix)]
fn out_of_descriptors_it_says_so_whatever_it_was_doing() {
    let sandbox = Sandbox::new();
    sandbox.written(&["daemon", "start"]);
    let mut doing = std::collections::BTreeSet::new();
    for most in 4..40 {
        let script = format!("ulimit -n {most}; exec \"$NAVLOCK\" wait db");
        let mut command = sandbox.program("sh");
        command.args(["-c", &script]).stderr(Stdio::piped()).stdout(Stdio::piped());
        let output = finish(command.spawn().unwrap());
        let code = output.code();
        let said = output.stderr;
        match code {
            Some(0) => break,
            Some(69) => {
                assert!(said.contains("Too many open files (os error 24) while "), "{said}");
                doing.insert(said);
            }
            // The system could not even load the program.
            _ => assert!(said.contains("error while loading shared libraries"), "{said}"),
        }
    }
    assert!(doing.len() >= 2, "{doing:?}");
}

#[test]
fn a_misspelt_argument_is_answered_and_names_are_spoken_of_only_where_they_can_stand() {
    let sandbox = Sandbox::new();
    for (arguments, what, not) in [
        (
            &["doctor", "--foo"][..],
            "unexpected argument '--foo' found; see 'navlock doctor",
            "name",
        ),
        (
            &["query", "--jsno"],
            "a similar argument exists: '--json'; see 'navlock query",
            "reserved",
        ),
        (&["quer"], "'query'; see 'navlock --help'", "name"),
        (&["daemon", "stat"], "'stat", "name"),
        (&["query", "--xyz"], "names that start with '-' are reserved", "similar"),
        (&["-u", "9"], "see 'navlock --help'", "navlock 9"),
    ] {
        let output = sandbox.output(arguments);
        assert_eq!(output.code(), Some(64), "{arguments:?}");
        let said = output.stderr;
        assert!(said.contains(what) && !said.contains(not), "{arguments:?}: {said}");
        assert_eq!(said.matches('\n').count(), 1, "{said}");
    }
}

#[test]
#[cfg(unix)]
fn help_that_cannot_be_written_is_a_failure() {
    let sandbox = Sandbox::new();
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.navlock(arguments);
        command.stdout(Stdio::from(full)).stderr(Stdio::piped());
        let output = finish(command.spawn().unwrap());
        assert_eq!(output.code(), Some(1), "{arguments:?}");
        let said = output.stderr;
        assert!(said.starts_with("navlock: cannot write the answer: No space left"), "{said}");
    }
}
