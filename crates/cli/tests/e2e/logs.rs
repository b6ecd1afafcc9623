//! What brokers log, where, and how it is read.

mod service_manager;

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::MetadataExt, net::UnixStream},
    process::{Child, ChildStdout, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use self::service_manager::ServiceManager;
use crate::sandbox::{Lines, Output, Sandbox, eventually, finish, wait};
#[cfg(target_os = "linux")]
use crate::shortage::{BYTES, on_a_small_disk_with};

/// The most bytes that one file of a log has.
const LIMIT: u64 = 512 << 10;

/// A client that connects and sends nonsense, until the broker has hung up.
fn talk_nonsense(sandbox: &Sandbox) {
    let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // A frame of one byte, which is no message.
    stream.write_all(&[0, 0, 0, 1, 0xff]).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// The whole log, which may be more than fits into a pipe.
fn logs(sandbox: &Sandbox) -> String {
    let output = Output::of(&mut sandbox.navlock(&["daemon", "logs"]));
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn why_a_session_ended_is_in_the_log_and_in_the_status() {
    let sandbox = Sandbox::new();
    sandbox.written(&["daemon", "start"]);
    talk_nonsense(&sandbox);
    eventually("it is in the log", || logs(&sandbox).contains("a frame holds no message"));
    let text = logs(&sandbox);
    let line = text.lines().find(|line| line.contains("a session ended")).unwrap();
    assert!(line.contains("Z  WARN navlock::broker: a session ended: "), "{line}");
    assert!(line.contains(&format!("pid={}", std::process::id())), "{line}");
    let status = sandbox.written(&["daemon", "status"]);
    let why = format!("ago (process {}): the connection failed: a frame ", std::process::id());
    assert!(status.contains("\na session ended ") && status.contains(&why), "{status}");
    assert!(
        status.contains(&format!("{}, info\n", sandbox.path("sock.log").display())),
        "{status}"
    );
}

#[test]
fn names_are_in_the_log_only_if_somebody_asks_for_them() {
    let lost = |variables: &[(&str, &str)]| {
        let sandbox = Sandbox::new();
        let mut start = sandbox.navlock(&["daemon", "start"]);
        assert!(wait(&mut start.envs(variables.iter().copied()).spawn().unwrap()).success());
        let mut victim = sandbox.hold(&["--bucket", "cellar", "--why", "reason", "hidden"]);
        let steal = ["run", "--bucket", "cellar", "--steal", "hidden", "true"];
        assert_eq!(sandbox.code(&steal), 0);
        assert_eq!(victim.ended().code(), Some(75));
        eventually("it is in the log", || logs(&sandbox).contains("a lock is lost"));
        logs(&sandbox)
    };
    let usual = lost(&[]);
    for secret in ["hidden", "cellar", "reason", "exec cat"] {
        assert!(!usual.contains(secret), "{secret}: {usual}");
    }
    assert!(usual.contains("how=Stolen"), "{usual}");
    assert!(lost(&[("NAVLOCK_LOG_NAMES", "1")]).contains("name=\"hidden\""));
    assert!(lost(&[("NAVLOCK_LOG", "debug")]).contains("name=\"hidden\""));
}

fn status(sandbox: &Sandbox) -> serde_json::Value {
    serde_json::from_str(&sandbox.written(&["daemon", "status", "--json"])).unwrap()
}

#[test]
fn the_level_of_the_log_can_be_changed_while_a_broker_runs() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.code(&["daemon", "log-level", "debug"]), 69);
    sandbox.written(&["daemon", "start"]);
    let asks = || assert_eq!(sandbox.code(&["run", "secret", "true"]), 0);
    let counts = || {
        let text = logs(&sandbox);
        ["a session ended", "a client asks"].map(|what| text.matches(what).count())
    };
    asks();
    let changed = sandbox.written(&["daemon", "log-level", "trace"]);
    assert_eq!(changed, "the broker logs from now on: trace\n");
    assert_eq!(status(&sandbox)["log"]["filter"], "trace");
    assert_eq!(counts()[1], 0);
    asks();
    eventually("it is logged", || counts()[0] > 0 && counts()[1] > 0);
    assert!(logs(&sandbox).contains("name=\"secret\""));
    sandbox.written(&["daemon", "log-level", "navlock::broker=error"]);
    let before = counts();
    asks();
    talk_nonsense(&sandbox);
    // The session has ended once the status says so.
    eventually("it has ended", || status(&sandbox)["numbers"]["sessionsEndedBadly"] == 1);
    assert_eq!(counts(), before);
    let output = sandbox.output(&["daemon", "log-level", "loud"]);
    output.assert_says(64, "\"loud\" is no level: write off, error");
    assert_eq!(status(&sandbox)["log"]["filter"], "navlock::broker=error");
}

/// How many waits the histogram in a status has counted.
fn waits_counted(waits: &serde_json::Value) -> u64 {
    let bounds = waits["bounds"].as_array().unwrap();
    let counts = bounds.iter().map(|bound| bound["count"].as_u64().unwrap());
    counts.sum::<u64>() + waits["longer"].as_u64().unwrap()
}

/// Asserts that every request has an outcome, and that every lock has ended.
fn assert_all_is_over(numbers: &serde_json::Value) {
    let number = |name: &str| numbers[name].as_u64().unwrap();
    let answered = ["grants", "unavailable", "failures", "aborts"].map(number);
    assert_eq!(number("requests"), answered.iter().sum::<u64>(), "{numbers}");
    assert_eq!(number("grants"), number("releases") + number("losses"), "{numbers}");
}

#[test]
fn events_are_counted_and_shown_to_programs() {
    let sandbox = Sandbox::new();
    let mut victim = sandbox.hold(&["db"]);
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    assert_eq!(sandbox.code(&["run", "-w", "3", "db", "true"]), 1);
    let mut waiter = sandbox.queue(&["db"]);
    assert_eq!(sandbox.code(&["run", "--steal", "db", "true"]), 0);
    assert_eq!(victim.ended().code(), Some(75));
    waiter.begun();
    talk_nonsense(&sandbox);
    eventually("it has ended", || status(&sandbox)["numbers"]["sessionsEndedBadly"] == 1);
    let shown = status(&sandbox);
    for (name, number) in [
        ("requests", 5),
        ("grants", 3),
        ("unavailable", 1),
        ("aborts", 1),
        ("losses", 1),
        ("thefts", 1),
        ("held", 1),
        ("pending", 0),
        ("failures", 0),
        ("sessionsEndedBadly", 1),
        ("logLinesMissing", 0),
    ] {
        assert_eq!(shown["numbers"][name], number, "{name}: {shown}");
    }
    assert_eq!(waits_counted(&shown["waits"]), 3);
    assert!(shown["waits"]["sumSeconds"].as_f64().unwrap() > 0.0, "one has waited: {shown}");
    assert_eq!(shown["log"]["file"].as_str(), sandbox.path("sock.log").to_str());
    let end = &shown["lastEnds"][0];
    assert_eq!(end["pid"], std::process::id());
    assert!(end["why"].as_str().unwrap().contains("a frame") && end["agoMs"].is_number(), "{end}");

    let metrics = sandbox.written(&["daemon", "metrics"]);
    for line in [
        "navlock_broker_grants_total 3",
        "navlock_broker_held 1",
        "navlock_broker_wait_time_seconds_bucket{le=\"+Inf\"} 3",
        "navlock_broker_wait_time_seconds_count 3",
    ] {
        assert!(metrics.lines().any(|has| has == line), "{line} is not in {metrics}");
    }
    waiter.release();
    eventually("nothing is held", || status(&sandbox)["numbers"]["held"] == 0);
    assert_all_is_over(&status(&sandbox)["numbers"]);
    sandbox.written(&["daemon", "stop"]);
    assert_eq!(sandbox.code(&["daemon", "metrics"]), 69);
}

#[test]
fn a_level_that_is_none_is_said_to_whoever_starts_a_broker() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["run", "db", "true"]);
    command.env("NAVLOCK_LOG", "loud").stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(command.spawn().unwrap());
    output.assert_says(69, "NAVLOCK_LOG: \"loud\" is no level: write off, error");
}

#[test]
fn a_log_does_not_grow_for_ever_and_its_last_lines_are_kept() {
    let sandbox = Sandbox::new();
    sandbox.written(&["daemon", "start"]);
    let [file, predecessor] = ["sock.log", "sock.log.1"].map(|name| sandbox.path(name));
    let length = |file| fs::metadata(file).map_or(0, |found| found.len());
    let mut rotations = 0;
    let mut known = None;
    while rotations < 3 {
        (0..200).for_each(|_| talk_nonsense(&sandbox));
        assert!(length(&file) <= LIMIT && length(&predecessor) <= LIMIT);
        let found = fs::metadata(&predecessor).ok().map(|found| found.ino());
        rotations += usize::from(found.is_some() && found != known);
        known = found;
    }
    // For a moment after the full file has been renamed, there is no file.
    eventually("a new file is there", || file.exists());
    let files = fs::read_dir(sandbox.path("")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("sock.log")).count(), 2);
    // The oldest lines are gone, and `-n` shows the last lines.
    assert!(!logs(&sandbox).contains("a broker listens"));
    sandbox.written(&["daemon", "stop"]);
    assert!(sandbox.written(&["daemon", "logs", "-n", "1"]).contains("the broker ends"));
    assert_eq!(sandbox.written(&["daemon", "logs", "-n", "3"]).lines().count(), 3);
}

/// What `daemon logs -f` writes.
struct Follower {
    child: Child,
    lines: Lines<ChildStdout>,
}

impl Follower {
    fn start(sandbox: &Sandbox) -> Self {
        let mut child = sandbox.start(&["daemon", "logs", "-f"]);
        let lines = Lines::of(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads on until there is a line with all of this.
    fn sees(&mut self, wanted: &[&str]) {
        let is_seen = self.lines.any(|line| wanted.iter().all(|wanted| line.contains(wanted)));
        assert!(is_seen, "no {wanted:?}");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_follower_of_a_log_sees_the_next_broker_and_the_next_file() {
    let sandbox = Sandbox::new();
    let mut follower = Follower::start(&sandbox);
    let mut start = || {
        sandbox.written(&["daemon", "start"]);
        let broker = sandbox.broker().unwrap();
        follower.sees(&["a broker listens", &format!("pid={}", broker.as_raw_nonzero())]);
        broker
    };
    start();
    sandbox.kill_broker();
    eventually("the broker ends", || sandbox.broker().is_none());
    start();
    let predecessor = sandbox.path("sock.log.1");
    while !predecessor.exists() {
        (0..100).for_each(|_| talk_nonsense(&sandbox));
    }
    sandbox.written(&["daemon", "stop"]);
    start();
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_changes_nothing_but_the_log() {
    let script = r#"
        logs() { "$NAVLOCK" daemon logs; }
        like "$(logs)" "*a broker listens*"
        fill
        missing() {
            like "$(says "$NAVLOCK" run --close db echo ran)" "0 ran"
            case $("$NAVLOCK" daemon status) in *" lines are missing"*) ;; *) false; esac
        }
        eventually missing
        like "$(says "$NAVLOCK" query)" "0 *"
        rm "$D/filler"
        goes_on() {
            "$NAVLOCK" run --close db true
            case $(logs) in *" before this one "*" missing)"*"a session ended"*) ;; *) false; esac
        }
        eventually goes_on"#;
    on_a_small_disk_with(&[("NAVLOCK_LOG", "debug")], BYTES, script);
}

#[test]
fn a_broker_that_is_run_on_purpose_logs_to_its_error_stream() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["daemon", "run"]);
    let broker = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it listens", || sandbox.broker().is_some() && sandbox.socket().exists());
    let output = sandbox.output(&["daemon", "logs"]);
    let said = output.stderr;
    assert!(said.contains("logs to its error stream"), "{said}");
    assert_eq!(output.stdout, "");
    talk_nonsense(&sandbox);
    assert!(sandbox.written(&["daemon", "stop"]).contains("has ended"));
    let output = finish(broker);
    let said = output.stderr;
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].contains("Z  INFO navlock::broker: a broker listens"), "{said}");
    assert!(lines[1].contains("a session ended: "), "{said}");
    assert!(lines.last().unwrap().contains("the broker ends"), "{said}");
    assert!(!sandbox.path("sock.log").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn the_journal_is_given_levels_and_no_second_time() {
    let sandbox = Sandbox::new();
    let journal = fs::File::create(sandbox.path("journal")).unwrap();
    let found = journal.metadata().unwrap();
    let mut command = sandbox.navlock(&["daemon", "run", "--idle-seconds", "0.1"]);
    command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
    assert!(
        finish(command.stdout(Stdio::null()).stderr(journal).spawn().unwrap()).status.success()
    );
    let text = fs::read_to_string(sandbox.path("journal")).unwrap();
    assert!(text.starts_with("<6> INFO navlock::broker: a broker listens"), "{text}");
}

#[test]
fn a_service_manager_is_told_when_a_broker_is_ready_and_when_it_ends() {
    let sandbox = Sandbox::new();
    let manager = ServiceManager::new(&sandbox);
    let broker = manager.start().stderr(Stdio::null()).spawn().unwrap();
    let ready = manager.receive();
    assert!(ready.starts_with("READY=1\nSTATUS=Serves locks at /"), "{ready}");
    // By then it listens.
    assert_eq!(sandbox.code(&["daemon", "status"]), 0);
    sandbox.written(&["daemon", "stop"]);
    assert_eq!(manager.receive(), "STOPPING=1");
    assert!(finish(broker).status.success());
}

#[test]
fn a_signal_ends_a_broker_in_order_and_its_clients_go_on_with_the_next_one() {
    for signal in [Signal::TERM, Signal::INT] {
        let sandbox = Sandbox::new();
        let manager = ServiceManager::new(&sandbox);
        let mut command = manager.start();
        let broker = command.env("NAVLOCK_LOG", "debug").stderr(Stdio::piped()).spawn().unwrap();
        assert!(manager.receive().starts_with("READY=1\n"));
        let holder = sandbox.hold(&["db"]);
        let mut waiter = sandbox.queue(&["db"]);
        // The command that asked whether it waits is a client too, for a moment.
        eventually("there are these two", || status(&sandbox)["clients"] == 2);
        kill_process(Pid::from_child(&broker), signal).unwrap();
        assert_eq!(manager.receive(), "STOPPING=1");
        let ended = finish(broker);
        assert!(ended.status.success(), "{}", ended.status);
        let said = ended.stderr;
        let places = [
            "it was told to end, by a signal",
            "the broker ends clients=2",
            "a session ended: the broker ends, and leaves all as it is for the next one",
        ];
        let places = places.map(|line| said.find(line).unwrap_or_else(|| panic!("{line}: {said}")));
        assert!(places.is_sorted(), "{said}");
        assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
        // No lock is lost, and no request is overtaken.
        let is_so = || sandbox.query() == ["held db exclusive", "pending db exclusive"];
        eventually("another one has all that there was", is_so);
        holder.release();
        waiter.begun();
        waiter.release();
    }
}

#[test]
fn a_log_that_is_followed_by_nobody_any_more_is_not_read_on() {
    let sandbox = Sandbox::new();
    sandbox.written(&["daemon", "start"]);
    // After the first line, nothing more is logged.
    let mut script = sandbox.program("sh");
    script.args(["-c", "\"$NAVLOCK\" daemon logs -f | head -n 1"]);
    let ended = finish(script.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert_eq!(ended.stdout.lines().count(), 1);
    assert_eq!(ended.stderr, "");
}
