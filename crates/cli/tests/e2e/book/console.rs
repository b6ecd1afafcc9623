//! The sessions of the book: blocks of commands that a reader types, with the lines that are printed then. One
//! shell plays all sessions of a page, in their order. A session with the mark `not-run` in its fence needs
//! more than a test has: a build of the project, another machine, a person, or an end by hand.

use std::{
    env, fs,
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{examples, sandbox_with_programs, script};
use crate::sandbox::{Lines, Sandbox, wait};

/// The pages whose sessions are played here. They need a broker that is used, and no etcd.
const PAGES: [&str; 4] =
    ["crates/cli/README.md", "docs/broker.md", "docs/command.md", "docs/looking.md"];

/// The page whose sessions need an etcd. The tests of machines play them.
pub(crate) const WITH_ETCD: &str = "docs/many-machines.md";

/// What the shell does first: it writes all that is printed into one stream, and says which command fails.
const BEGIN: &str = "exec 2>&1; trap 'echo \"failed: $BASH_COMMAND\"' ERR";

/// What the shell prints after the commands of a session.
const END: &str = "the session has ended";

/// A shell that a reader has, with `navlock` in its `PATH`. bash and not sh: `kill %1` of a script needs it.
pub(crate) fn shell(sandbox: &Sandbox) -> Command {
    let mut shell = sandbox.program("bash");
    let path = env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{}:{path}", sandbox.path("").display()));
    shell.env("HOME", sandbox.path("")).env("TMPDIR", sandbox.path(""));
    shell
}

/// A shell with all that runs in it, which ends when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A session that has failed leaves programs behind.
        let group = self.0.id().try_into().ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.0.wait();
    }
}

/// Plays the sessions of a page in this shell. `adapt` changes the commands that would meet something else of
/// this machine.
pub(crate) fn play(page: &str, mut shell: Command, adapt: impl Fn(&str) -> String) {
    shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(shell.spawn().unwrap());
    let mut input = running.0.stdin.take().unwrap();
    let mut lines = Lines::of(running.0.stdout.take().unwrap());
    writeln!(input, "{BEGIN}").unwrap();
    for (heading, session) in examples(page, "console") {
        let (commands, shown): (Vec<_>, Vec<_>) =
            session.lines().partition(|line| line.starts_with("$ "));
        for command in commands {
            writeln!(input, "{}", adapt(&command[2..])).unwrap();
        }
        writeln!(input, "echo '{END}'").unwrap();
        // A command in the background may print its lines after the end of the others.
        let mut printed = Vec::new();
        let mut has_ended = false;
        while !has_ended || !is_shown(&printed, &shown) {
            let next = lines.next();
            let line = next.unwrap_or_else(|| panic!("{page}, {heading}: the shell has ended"));
            assert!(!line.starts_with("failed: "), "{page}, {heading}: {line}, after {printed:?}");
            if line == END {
                has_ended = true;
            } else {
                printed.push(line);
            }
            // Where a page shows what is printed, nothing else is.
            let is_known = |line: &String| shown.iter().any(|shown| is_like(line, shown));
            let stray = printed.iter().find(|line| !shown.is_empty() && !is_known(line));
            assert!(stray.is_none(), "{page}, {heading}: {stray:?} is printed, not {shown:?}");
        }
    }
    drop(input);
    assert!(wait(&mut running.0).success(), "{page}");
}

/// Whether all the lines that a page shows were printed, in their order. `navlock` may say a line about a wait
/// several times.
fn is_shown(printed: &[String], shown: &[&str]) -> bool {
    let mut printed = printed.iter();
    shown.iter().all(|shown| printed.any(|line| is_like(line, shown)))
}

/// Whether a line is like the one that a page shows: with other numbers, another user and another machine. A
/// line about a wait says less if the broker is slow to answer.
fn is_like(line: &str, shown: &str) -> bool {
    let without_numbers = |word: &str| word.chars().filter(|c| !c.is_ascii_digit()).collect();
    let form = |word: &str| if word.contains('@') { "@".to_owned() } else { without_numbers(word) };
    let forms = |line: &str| line.split_whitespace().map(form).collect::<Vec<String>>().join(" ");
    // The book's reader is ada.
    let line = line.replace(&navlock::this_process().user, "ada");
    let (line, shown) = (forms(&line), forms(shown));
    line == shown || shown.strip_prefix(&line).is_some_and(|rest| rest.starts_with("; "))
}

#[test]
fn the_sessions_of_the_book_run() {
    for page in PAGES {
        let sandbox = sandbox_with_programs();
        // Not every system has the program that shows manuals.
        script(&sandbox, "man", "exec cat >/dev/null");
        let holder = sandbox.hold(&["db"]);
        play(page, shell(&sandbox), |command| {
            let mut command = command.to_owned();
            if command.starts_with("navlock daemon stop") {
                // A reader types the next command only when the holder has started another broker.
                command += "\nuntil navlock daemon status >/dev/null; do sleep 0.05; done";
            }
            command
        });
        holder.release();
    }
}

/// So a new session is either played or marked.
#[test]
fn each_session_of_the_book_is_played_or_marked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for page in fs::read_dir(root.join("docs")).unwrap() {
        let page = page.unwrap().path();
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        let page = format!("docs/{}", page.file_name().unwrap().to_str().unwrap());
        let has_session = text.lines().any(|line| line == "```console");
        let is_played = page == WITH_ETCD || PAGES.contains(&&*page);
        assert_eq!(has_session, is_played, "{page}: write `console,not-run`, or play it");
    }
}

#[test]
fn lines_are_like_each_other_whatever_their_numbers_and_machines() {
    let shown = "navlock: waiting for \"db\" (exclusive) 1s; held by sh[4711] ada@engine for 3s";
    for like in [
        "navlock: waiting for \"db\" (exclusive) 10s; held by sh[8] root@host for 12s",
        "navlock: waiting for \"db\" (exclusive) 1s",
    ] {
        assert!(is_like(like, shown), "{like}");
    }
    for other in ["navlock: waiting for \"db\" (shared) 1s", "navlock: wait", "a has it", ""] {
        assert!(!is_like(other, shown), "{other}");
    }
}
