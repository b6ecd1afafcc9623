//! The suites of the library, built for another system and run there.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use crate::run::{Result, said, show, within};

use super::toolchain::Toolchain;

/// The crates whose suites are run.
const CRATES: [&str; 6] = [
    "navlock-platform",
    "navlock-engine",
    "navlock-core",
    "navlock-wire",
    "navlock-delegation",
    "navlock-broker",
];

/// How long the tests of one program may take. Under qemu, each needs only a part of this time.
const MINUTES: u32 = 20;

/// A test that is left out: its crate, its name, and why.
pub(super) type LeftOut = (&'static str, &'static str, &'static str);

/// Tests that were seen to fail under qemu, each with the cause that is most likely. A name that no test has
/// is an error: remove the entry.
pub(super) const NOT_UNDER_QEMU: [LeftOut; 5] = [
    (
        "navlock-platform",
        "unix::process::tests::the_end_of_a_process_is_seen_whoever_waits_for_it",
        "qemu makes fork of vfork, so that a child is there before its program has started, without its name",
    ),
    (
        "navlock-delegation",
        "a_forked_process_has_no_part_in_the_map",
        "qemu does not pass on to the kernel what a forked process is not to have (MADV_DONTFORK, MADV_WIPEONFORK)",
    ),
    (
        "navlock-broker",
        "nothing_is_done_before_something_is_asked_for_and_a_failure_is_not_for_ever",
        NOT_HEARD,
    ),
    (
        "navlock-broker",
        "connecting::without_a_daemon_and_a_program_to_start_it_the_error_says_what_to_do",
        NOT_HEARD,
    ),
    (
        "navlock-broker",
        "settings_files::tests::a_file_that_others_can_write_does_not_count",
        "root gives a file to another user, and nobody but root is in the namespace that has qemu run programs",
    ),
];
const NOT_HEARD: &str =
    "qemu makes fork of vfork, so that whoever starts a program does not hear that there is none";

/// Builds the suites for a target and runs each, by `runner` if there is one. Returns how many tests have
/// passed. It is an error if the suites of one of the crates run no test.
pub(super) fn run(
    rust: &Toolchain,
    runner: Option<&Command>,
    left_out: &[LeftOut],
) -> Result<usize> {
    let mut passed = BTreeMap::from(CRATES.map(|package| (package, 0)));
    let mut gone: Vec<_> = left_out.iter().collect();
    for Suite { package, folder, program } in built(rust)? {
        // Folder and variable are as cargo sets them: some tests look for files of their crate.
        let by_runner = |words: &[&str]| {
            let mut command = through(runner, &program);
            command.args(words).current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
            command
        };
        let of_package: Vec<_> = left_out.iter().filter(|(of, ..)| *of == package).collect();
        let mut command = by_runner(&["--exact"]);
        if !of_package.is_empty() {
            let listed = said(&mut by_runner(&["--list"]))?;
            let is_here = |test: &str| listed.lines().any(|line| line == format!("{test}: test"));
            for (_, test, why) in of_package.into_iter().filter(|(_, test, _)| is_here(test)) {
                println!("left out: {test}: {why}");
                command.args(["--skip", test]);
                gone.retain(|(of, name, _)| (*of, *name) != (package, *test));
            }
        }
        *passed.entry(package).or_default() += passed_by(&command)?;
    }
    if let Some((package, test, _)) = gone.first() {
        return Err(format!("{test} of {package} is left out, and there is no such test"));
    }
    if let Some((package, _)) = passed.iter().find(|(_, passed)| **passed == 0) {
        return Err(format!("the suites of {package} have run no test"));
    }
    Ok(passed.values().sum())
}

/// A command that runs a program, by a runner if there is one.
pub(super) fn through(runner: Option<&Command>, program: &Path) -> Command {
    let Some(runner) = runner else { return Command::new(program) };
    let mut command = Command::new(runner.get_program());
    command.args(runner.get_args()).arg(program);
    command.envs(runner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

struct Suite {
    package: &'static str,
    /// Where its sources are.
    folder: PathBuf,
    program: PathBuf,
}

fn built(rust: &Toolchain) -> Result<Vec<Suite>> {
    let packages: Vec<_> = CRATES.iter().flat_map(|package| ["--package", package]).collect();
    let tests = [
        "--all-features",
        "--lib",
        "--tests",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ];
    let mut command = rust.cargo("test", &[&packages[..], &tests].concat());
    let shown = show(&command);
    println!("\n$ {shown}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("failed ({}): {shown}", output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let suites = messages.lines().filter_map(suite).collect::<Vec<_>>();
    if suites.is_empty() { Err(format!("nothing was built by: {shown}")) } else { Ok(suites) }
}

/// The suite that a message of cargo's is about, if it is about one.
fn suite(message: &str) -> Option<Suite> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let program = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    // A crate's folder has its name.
    let package = CRATES.into_iter().find(|package| {
        package.strip_prefix("navlock-") == folder.file_name().and_then(|name| name.to_str())
    })?;
    message["profile"]["test"].as_bool()?.then_some(Suite { package, folder, program })
}

/// Runs the tests of one program. Returns how many have passed.
fn passed_by(command: &Command) -> Result<usize> {
    let shown = show(command);
    println!("\n$ {shown}");
    let began = Instant::now();
    let output = within(MINUTES, command).output();
    let output = output.map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let how = match output.status.code() {
            // `timeout` has ended the command, by its first signal or by its second one.
            Some(124 | 137) => format!("it was ended after {MINUTES} minutes; this had not ended"),
            _ => output.status.to_string(),
        };
        return Err(format!("failed ({how}): {shown}\n{text}\n{complaints}"));
    }
    let passed =
        passed(&text).ok_or_else(|| format!("it does not say how it went: {shown}\n{text}"))?;
    println!("{passed} passed ({} s)", began.elapsed().as_secs());
    Ok(passed)
}

/// How many tests have passed, by the last line of libtest.
fn passed(text: &str) -> Option<usize> {
    let end = text.lines().rev().find_map(|line| line.strip_prefix("test result: ok. "))?;
    end.split_once(" passed;")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_passed_tests_is_read_from_the_last_line() {
        let text =
            "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\n";
        assert_eq!(passed(text), Some(2));
        assert_eq!(passed("test result: FAILED. 1 passed; 1 failed"), None);
        assert_eq!(passed(""), None);
    }

    #[test]
    fn a_suite_is_told_from_what_else_cargo_says() {
        let of = |executable: &str, is_test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/engine/Cargo.toml",
                "profile":{{"test":{is_test}}},"executable":{executable}}}"#
            )
        };
        let found = suite(&of(r#""/w/target/model-1""#, true)).unwrap();
        assert_eq!(
            (found.package, found.folder.to_str()),
            ("navlock-engine", Some("/w/crates/engine"))
        );
        assert!(suite(&of("null", true)).is_none() && suite(&of(r#""/w/a""#, false)).is_none());
        assert!(suite("{}").is_none() && suite("no JSON").is_none());
    }
}
