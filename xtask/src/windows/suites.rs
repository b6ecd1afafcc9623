//! The suites of tests that Cargo knows: built, and run by Wine in a bounded time.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use super::toolchain::{TARGET, cargo, end_all};
use crate::run::{Result, root, run, said, show, within};

/// A suite of tests.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// The name of the package that Cargo tests.
    package: &'static str,
    targets: &'static [&'static str],
    /// How long it may run once it is built. A suite that hangs is ended then, which is an error.
    minutes: u32,
    /// Whether it checks models, for which it has to be optimised. To optimise the other suites as much takes
    /// longer than to run them. (A crate to which Cargo.toml gives a level of its own keeps that level.)
    has_models: bool,
}

/// The name of the broker's suite.
const BROKER: &str = "broker";

/// The name of the suite of the program `navlock`.
pub(super) const COMMAND: &str = "command";

/// All suites that are run. Each may take several times as long as it did on a machine with two cores.
pub(super) const SUITES: [Suite; 5] = [
    Suite {
        name: "platform",
        package: "navlock-platform",
        targets: &["--lib"],
        minutes: 5,
        has_models: false,
    },
    Suite {
        name: "engine",
        package: "navlock-engine",
        targets: &["--lib", "--tests"],
        minutes: 10,
        has_models: true,
    },
    Suite {
        name: "core",
        package: "navlock-core",
        targets: &["--lib", "--tests"],
        minutes: 15,
        has_models: true,
    },
    Suite {
        name: BROKER,
        package: "navlock-broker",
        targets: &["--lib", "--tests"],
        minutes: 20,
        has_models: false,
    },
    Suite {
        name: COMMAND,
        package: "navlock-cli",
        targets: &["--bins", "--tests"],
        minutes: 25,
        has_models: false,
    },
];

/// Tests that do not run by Wine: suite, name and reason. A name that no test has is an error: remove the
/// entry.
pub(super) const LEFT_OUT: [(&str, &str, &str); 12] = [
    (
        BROKER,
        "client_files::tests::a_later_testament_is_not_taken_back_with_an_earlier_one",
        NOT_REPLACED,
    ),
    (BROKER, "client_files::tests::room_that_somebody_removed_is_taken_again", NOT_REMOVED),
    (
        BROKER,
        "client_files::tests::inherited_locks_are_known_by_their_open_file_after_its_removal",
        NOT_REMOVED,
    ),
    (
        BROKER,
        "client_files::tests::removing_files_all_the_time_does_not_disturb_a_hand_over",
        "it takes minutes, as a file that is removed while it is open is in the way until it is closed",
    ),
    (BROKER, "connecting::without_a_daemon_who_waits_is_told_and_who_holds_holds", NOT_REMOVED),
    (
        BROKER,
        "connecting::a_holder_that_asks_a_connection_without_a_thread_is_told_that_a_daemon_gave_it_up",
        NOT_REMOVED,
    ),
    (
        BROKER,
        "looking::a_looker_that_does_not_read_is_told_how_much_it_missed_and_the_present_state",
        "forty thousand locks take minutes",
    ),
    (
        BROKER,
        "queue::twenty_thousand_waiters_drain_in_order",
        "twenty thousand who wait take minutes",
    ),
    (
        COMMAND,
        "commands::top::tests::limits::no_size_and_no_name_breaks_the_screen",
        "it takes six minutes by Wine",
    ),
    (
        COMMAND,
        "commands::web::socket::tests::a_socket_of_somebody_else_is_not_removed",
        "Wine 8 gives a new file the number of one that was removed",
    ),
    (COMMAND, "log::bounded::tests::a_file_that_was_removed_is_made_anew", NOT_REMOVED),
    (COMMAND, "log::reader::tests::whole_lines_are_read_on_over_the_ends_of_files", NOT_REPLACED),
];

/// Under Wine 8, a removed file keeps its name until all have closed it. Windows removes the name at once
/// since its version 10 (the removal of POSIX), which Wine 8 does not know.
const NOT_REMOVED: &str = "Wine 8 does not remove a file that somebody has open";
/// For the same reason.
const NOT_REPLACED: &str = "Wine 8 does not replace a file that somebody has open";

/// The modules of the end-to-end tests that are for Unix alone. The comment above each module gives the
/// reason.
pub(super) fn for_unix_alone() -> Result<Vec<(String, String)>> {
    let path = root().join("crates/cli/tests/e2e/main.rs");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<&str> = text.lines().collect();
    let of_unix = lines.windows(3).filter_map(|lines| {
        let [above, condition, module] = lines else { return None };
        let is_unix = condition.starts_with("#[cfg(")
            && ["unix", "linux"].iter().any(|system| condition.contains(system));
        let module = module.strip_prefix("mod ")?.strip_suffix(';').filter(|_| is_unix)?;
        let why = above.strip_prefix("// ").map(|why| why.trim_end_matches('.').to_owned());
        Some(why.map(|why| (module.to_owned(), why)).ok_or_else(|| {
            format!("{}: it does not say why {module} is for Unix alone", path.display())
        }))
    });
    of_unix.collect()
}

/// The tests of a suite that have passed.
pub(super) struct Passed {
    pub(super) count: usize,
    /// The tests that failed beside others, and passed alone.
    pub(super) only_alone: Vec<String>,
}

/// Runs a suite. A test that fails beside others is run once more alone: by Wine the start of a process fails
/// now and then, and a broker may need longer to start than its clients wait.
pub(super) fn test(suite: &Suite, folder: &Path) -> Result<Passed> {
    run(of_cargo(suite, folder).arg("--no-run"))?;
    let listed = said(&mut within(5, of_cargo(suite, folder).args(["--", "--list"])))?;
    let mut missing: BTreeSet<&str> = listed.lines().filter_map(listed_in).collect();
    let mut command = of_cargo(suite, folder);
    command.args(["--", "--exact"]);
    for (_, test, _) in LEFT_OUT.iter().filter(|left_out| left_out.0 == suite.name) {
        if !missing.remove(test) {
            return Err(format!("{}: {test} is left out, and there is no such test", suite.name));
        }
        command.args(["--skip", test]);
    }
    println!("\n$ {}", show(&command));
    let began = Instant::now();
    let mut child = within(suite.minutes, &command)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let out = child.stdout.take();
    let heard = thread::spawn(move || out.map(Heard::of).unwrap_or_default());
    let status = child.wait().map_err(|error| error.to_string())?;
    // A process that is left may keep the pipe open from which the lines are read.
    end_all(folder)?;
    let Heard { passed, ended, failed } = heard.join().map_err(|_| "its lines cannot be read")?;
    println!("({} s)", began.elapsed().as_secs());
    missing.retain(|test| !ended.contains(*test));
    if status.code() == Some(TIMED_OUT) {
        return Err(format!(
            "{} was ended after {} minutes; these tests had not come to their end, or not begun:\n  {}",
            suite.name,
            suite.minutes,
            missing.into_iter().collect::<Vec<_>>().join("\n  ")
        ));
    }
    if !status.success() && (failed.is_empty() || failed.len() > UNLUCKY || !missing.is_empty()) {
        return Err(format!("{} failed ({status})", suite.name));
    }
    for test in &failed {
        run(&mut within(MINUTES_ALONE, of_cargo(suite, folder).args(["--", "--exact", test])))?;
        end_all(folder)?;
    }
    if passed == 0 {
        return Err(format!("{} ran no test", suite.name));
    }
    Ok(Passed { count: passed + failed.len(), only_alone: failed })
}

/// How many tests of a suite may fail beside others.
const UNLUCKY: usize = 3;

/// How long a test may take alone.
const MINUTES_ALONE: u32 = 5;

/// What the lines of a suite tell.
#[derive(Default)]
struct Heard {
    /// How many of its tests have passed.
    passed: usize,
    /// The tests that have come to their end.
    ended: BTreeSet<String>,
    /// The tests that have failed.
    failed: Vec<String>,
}

impl Heard {
    /// Shows the lines as they come.
    fn of(out: impl Read) -> Self {
        let mut heard = Self::default();
        // A test may print bytes that are no text.
        for line in BufReader::new(out).split(b'\n').map_while(io::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            heard.passed += passed_of(&line).unwrap_or(0);
            heard.ended.extend(ended_in(&line).map(str::to_owned));
            heard.failed.extend(failed_in(&line).map(str::to_owned));
        }
        heard
    }
}

/// The exit code of `timeout` when it has ended a command.
const TIMED_OUT: i32 = 124;

fn of_cargo(suite: &Suite, folder: &Path) -> Command {
    let mut command = cargo(folder);
    command.args(["test", "--locked", "--no-fail-fast", "--target", TARGET]);
    command.args(["-Zbuild-std=std,panic_unwind,test", "-p", suite.package, "--all-features"]);
    command.args(suite.targets).env("TESTS_BY_WINE", "1");
    if !suite.has_models {
        command.env("CARGO_PROFILE_TEST_OPT_LEVEL", "0");
    }
    command
}

/// The test that a line of the list names.
fn listed_in(line: &str) -> Option<&str> {
    line.strip_suffix(": test")
}

/// The test whose end a line reports. What the test prints may stand between the name and the result.
fn ended_in(line: &str) -> Option<&str> {
    let (test, _) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some(test)
}

/// The test of which a line tells that it failed.
fn failed_in(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// How many tests have passed, by the last line of one program of tests.
fn passed_of(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("test result: ")?;
    let rest = rest.strip_prefix("ok. ").or_else(|| rest.strip_prefix("FAILED. "))?;
    rest.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_of_test_programs_alone_are_counted() {
        let line = "test result: ok. 17 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(passed_of(line), Some(17));
        assert_eq!(passed_of("test a::b ... ok"), None);
        assert_eq!(passed_of("test result: FAILED. 16 passed; 1 failed"), Some(16));
    }

    #[test]
    fn a_test_is_known_by_its_name_in_the_list_and_at_its_end() {
        assert_eq!(listed_in("a::b: test"), Some("a::b"));
        assert_eq!(listed_in("12 tests, 0 benchmarks"), None);
        assert_eq!(ended_in("test a::b ... ok"), Some("a::b"));
        assert_eq!(ended_in("running 12 tests"), None);
        assert_eq!(failed_in("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed_in("test a::b ... ok"), None);
    }

    #[test]
    fn each_module_of_end_to_end_tests_that_is_for_unix_alone_says_why() {
        let all = for_unix_alone().unwrap();
        assert!(all.contains(&("signals".to_owned(), "Signals".to_owned())), "{all:?}");
    }

    #[test]
    fn every_left_out_test_is_of_an_existing_suite() {
        for (suite, test, why) in LEFT_OUT {
            assert!(SUITES.iter().any(|known| known.name == suite), "{suite}: {test}: {why}");
        }
    }
}
