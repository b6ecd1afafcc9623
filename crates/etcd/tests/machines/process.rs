//! Processes of their own, which can be stopped and go on: this program again, in another role.
//!
//! They speak in lines over a socket; their own output is the test harness's.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
};

use navlock_core::UserAgent;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::{fenced, owning, paused};
use crate::server::{DEADLINE, connect, options, shared};

/// What tells a process its role, where it speaks to, and its store.
const ROLE: &str = "NAVLOCK_TEST_ROLE";

/// The namespace of tests is not of this process, which counts its own.
struct Role<'a> {
    name: &'a str,
    speak_to: &'a str,
    store: &'a str,
    namespace: &'a str,
}

#[test]
#[ignore = "no test: the role of a process that other tests start"]
fn another_process() {
    let Ok(role) = env::var(ROLE) else { return };
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let mut words = role.split(' ');
    let mut word = || words.next().unwrap();
    let role = Role { name: word(), speak_to: word(), store: word(), namespace: word() };
    let options = options(role.store, role.namespace).time_to_live(paused::TIME_TO_LIVE);
    let line = Line::new(TcpStream::connect(role.speak_to).unwrap());
    let options = if role.name == "owner" { options.keep_names(1) } else { options };
    play(role.name, &connect(&options), line);
}

fn play(role: &str, machine: &UserAgent, line: Line) {
    let locks = machine.lock_manager("bucket");
    match role {
        "holder" => paused::hold(&locks, line),
        "owner" => {
            owning::own(&locks, "db");
            paused::hold(&locks, line);
        }
        "worker" => fenced::work(&locks, line),
        _ => panic!("there is no role {role}"),
    }
}

/// A process in a role, seen from the test. It is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    pid: Pid,
}

impl Process {
    /// Starts it, as a machine on the shared server; what it speaks by.
    pub(crate) fn start(role: &str, namespace: &str) -> (Self, Line) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let store = shared().endpoint();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "process::another_process", "--ignored", "--nocapture"])
            .env(ROLE, format!("{role} {address} {store} {namespace}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let process = Self { child, pid };
        // It connects or, having failed, has said why; then this waits until the test is killed.
        let (stream, _) = listener.accept().unwrap();
        (process, Line::new(stream))
    }

    /// Stops it as `^Z` would; from now on it does nothing.
    pub(crate) fn stop(&self) {
        kill_process(self.pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(self.pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "it has ended");
    }

    pub(crate) fn go_on(&self) {
        kill_process(self.pid, Signal::CONT).unwrap();
    }

    /// Waits until it has ended, and well.
    pub(crate) fn end(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the process failed");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One end of a conversation in lines.
pub(crate) struct Line(BufReader<TcpStream>);

impl Line {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn say(&mut self, words: &str) {
        self.0.get_mut().write_all(format!("{words}\n").as_bytes()).unwrap();
    }

    /// The next line; empty if the other has ended.
    pub(crate) fn read_answer(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it is said in good time");
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.read_answer()
    }

    /// The numbers of a line that begins with this word.
    #[track_caller]
    pub(crate) fn read_numbers(&mut self, word: &str) -> Vec<u64> {
        let line = self.read_answer();
        let numbers = line.strip_prefix(word).unwrap_or_else(|| panic!("{line:?}, not {word}"));
        numbers.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }
}
