//! Names that a process owns: it takes their locks again without asking, until somebody else asks.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::fs::FileExt,
    path::Path,
    pin::pin,
    process::{ChildStdin, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use navlock::{LockGuard, LockManager, blocking::block_on_timeout};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    sandbox::{Sandbox, eventually},
    worker::{self, TIMEOUT, Worker},
};

/// The role of a process that carries out the lines that it reads, and says the outcome of each.
pub(crate) fn client(_: &[&str]) {
    let (reach, locks) = worker::connected();
    let mut held = None;
    let stops = Arc::new(AtomicBool::new(false));
    for line in BufReader::new(std::io::stdin()).lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        let said = match words[..] {
            ["own", name, mode] => {
                let (before, began) = (reach.owned(), Instant::now());
                while reach.owned() == before {
                    assert!(began.elapsed() < TIMEOUT, "the name is not owned");
                    drop(lock(&locks, name, mode));
                }
                "owned".to_owned()
            }
            ["lock", name, mode] => {
                let guard = held.insert(lock(&locks, name, mode));
                format!("token {}", guard.fencing_token().get())
            }
            ["try", name] => {
                let guard = soon(locks.lock(name).if_available().into_future()).unwrap();
                held = guard;
                if held.is_some() { "held".to_owned() } else { "not held".to_owned() }
            }
            ["steal", name] => {
                held = Some(soon(locks.lock(name).steal().into_future()).unwrap());
                "stolen".to_owned()
            }
            ["release"] => {
                held = None;
                "released".to_owned()
            }
            ["lost"] => format!("lost {}", held.as_ref().is_some_and(LockGuard::is_lost)),
            ["turns", name, mode, many] => {
                let mut last = 0;
                for _ in 0..many.parse().unwrap() {
                    let token = lock(&locks, name, mode).fencing_token().get();
                    assert!(token > last, "{token} after {last}");
                    last = token;
                }
                format!("token {last}")
            }
            ["spin", name, path] => {
                spin(locks.clone(), name.to_owned(), path, Arc::clone(&stops));
                "spins".to_owned()
            }
            ["contend", name, path] => {
                let (guard, seen) = contend(&locks, name, path);
                held = Some(guard);
                format!("{seen:?}")
            }
            ["rest"] => {
                stops.store(true, SeqCst);
                "rests".to_owned()
            }
            _ => panic!("{line}"),
        };
        worker::say(&said);
    }
}

fn soon<F: Future>(future: F) -> F::Output {
    block_on_timeout(future, TIMEOUT).expect("in good time")
}

fn lock(locks: &LockManager, name: &str, mode: &str) -> LockGuard {
    let request = locks.lock(name);
    let request = if mode == "shared" { request.shared() } else { request };
    soon(request.into_future()).unwrap()
}

/// How often the process that [spins](spin) has taken the lock.
fn turns(path: impl AsRef<Path>) -> u64 {
    u64::from_ne_bytes(fs::read(path).unwrap().try_into().unwrap())
}

/// Takes the lock while another process spins. Returns how often that process has taken the lock since the
/// request was seen in the queue; `None` if the request never was in the queue.
fn contend(locks: &LockManager, name: &str, path: &str) -> (LockGuard, Option<u64>) {
    let mut request = pin!(locks.lock(name).into_future());
    let mut context = Context::from_waker(Waker::noop());
    if let Poll::Ready(granted) = request.as_mut().poll(&mut context) {
        return (granted.unwrap(), None);
    }
    // The query is sent after the request, so the request was seen before this is answered.
    let is_seen = !soon(locks.query()).unwrap().pending.is_empty();
    let before = turns(path);
    let guard = soon(request).unwrap();
    (guard, is_seen.then(|| turns(path) - before))
}

/// Takes the lock again and again, without a pause in between, and counts that in a file.
fn spin(locks: LockManager, name: String, path: &str, stops: Arc<AtomicBool>) {
    let file = File::options().write(true).open(path).unwrap();
    thread::spawn(move || {
        let mut turns = 0_u64;
        while !stops.load(SeqCst) {
            let guard = lock(&locks, &name, "exclusive");
            turns += 1;
            file.write_all_at(&turns.to_ne_bytes(), 0).unwrap();
            // Work a little, so that other processes mostly find the lock held.
            thread::sleep(Duration::from_millis(1));
            drop(guard);
        }
    });
}

/// A process that plays [`client`].
struct Client {
    worker: Worker,
    tells: ChildStdin,
}

impl Client {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = worker::program(sandbox, "owned::client", "");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let tells = child.stdin.take().unwrap();
        Self { worker: Worker::of(child), tells }
    }

    fn begin(&mut self, what: &str) {
        writeln!(self.tells, "{what}").unwrap();
    }

    /// Has the process do this, and returns what it says then.
    fn tell(&mut self, what: &str) -> String {
        self.begin(what);
        self.worker.read_line()
    }

    fn token(&mut self, what: &str) -> u64 {
        let said = self.tell(what);
        said.strip_prefix("token ").unwrap_or_else(|| panic!("{said}")).parse().unwrap()
    }
}

/// A broker that is stopped until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn broker(sandbox: &Sandbox) -> Self {
        let broker = sandbox.broker().unwrap();
        kill_process(broker, Signal::STOP).unwrap();
        Self(broker)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn an_owned_name_is_taken_though_the_broker_is_stopped() {
    let sandbox = Sandbox::new();
    let mut owner = Client::start(&sandbox);
    owner.tell("own db exclusive");
    let stopped = Stopped::broker(&sandbox);
    let last = owner.token("turns db exclusive 1000");
    drop(stopped);
    assert!(sandbox.fence("db") > last);
}

#[test]
fn an_owner_that_is_stopped_and_holds_nothing_keeps_nobody_waiting() {
    let sandbox = Sandbox::new();
    let mut owner = Client::start(&sandbox);
    owner.tell("own db exclusive");
    let last = owner.token("turns db exclusive 10");
    owner.worker.stop();
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0);
    let next = sandbox.fence("db");
    assert!(next > last);
    owner.worker.signal(Signal::CONT);
    assert!(owner.token("lock db exclusive") > next);
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
}

#[test]
fn an_owner_in_a_tight_loop_lets_another_client_in_after_at_most_one_more_turn() {
    let sandbox = Sandbox::new();
    let [mut owner, mut other] = [(); 2].map(|()| Client::start(&sandbox));
    let count = sandbox.path("turns");
    fs::write(&count, 0_u64.to_ne_bytes()).unwrap();
    owner.tell("own db exclusive");
    owner.tell(&format!("spin db {}", count.display()));
    let mut queued = 0;
    while queued < 10 {
        let before = turns(&count);
        eventually("it spins", || turns(&count) > before + 10);
        match &*other.tell(&format!("contend db {}", count.display())) {
            "None" => {}
            // The count may have been read while the lock was released, or before a turn was counted.
            "Some(0)" | "Some(1)" => queued += 1,
            more => panic!("{more} turns after the request was seen"),
        }
        other.tell("release");
    }
    owner.tell("rest");
}

#[test]
fn an_owner_that_is_killed_leaves_nothing_be_it_holding_or_not() {
    let sandbox = Sandbox::new();
    for holds in [false, true] {
        let mut owner = Client::start(&sandbox);
        owner.tell("own db exclusive");
        let mut last = owner.token("turns db exclusive 10");
        if holds {
            last = owner.token("lock db exclusive");
            assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
        }
        owner.worker.signal(Signal::KILL);
        owner.worker.ended();
        assert!(sandbox.fence("db") > last);
    }
    assert!(sandbox.query().is_empty());
}

#[test]
fn an_owner_is_robbed_as_any_holder_is() {
    let sandbox = Sandbox::new();
    let [mut owner, mut thief] = [(); 2].map(|()| Client::start(&sandbox));
    owner.tell("own db exclusive");
    owner.tell("lock db exclusive");
    assert_eq!(owner.tell("lost"), "lost false");
    assert_eq!(thief.tell("steal db"), "stolen");
    assert_eq!(owner.tell("lost"), "lost true");
    owner.tell("release");
    assert_eq!(thief.tell("lost"), "lost false");
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    // The same with a name that nobody holds.
    thief.tell("release");
    owner.tell("own other exclusive");
    assert_eq!(thief.tell("steal other"), "stolen");
    assert_eq!(owner.tell("try other"), "not held");
}

#[test]
fn an_owned_name_is_free_after_the_kill_of_a_broker_and_a_held_name_is_held() {
    let sandbox = Sandbox::new();
    let mut owner = Client::start(&sandbox);
    for name in ["idle", "held"] {
        owner.tell(&format!("own {name} exclusive"));
    }
    let mut idle = owner.token("turns idle exclusive 10");
    let held = owner.token("lock held exclusive");
    for _ in 0..3 {
        sandbox.kill_broker();
        assert_eq!(sandbox.answered(&["run", "-n", "held", "true"]), 1);
        assert_eq!(sandbox.query(), ["held held exclusive"]);
        assert_eq!(owner.tell("lost"), "lost false");
        let next = sandbox.fence("idle");
        assert!(next > idle);
        idle = next;
    }
    owner.tell("release");
    assert!(sandbox.fence("held") > held);
    assert!(owner.token("turns idle exclusive 10") > idle);
}

#[test]
fn an_owner_goes_on_taking_its_names_while_brokers_are_killed() {
    let sandbox = Sandbox::new();
    let [mut owner, mut other] = [(); 2].map(|()| Client::start(&sandbox));
    owner.tell("own db exclusive");
    let mut last = 0;
    for turn in 0..12 {
        let client = if turn % 3 == 2 { &mut other } else { &mut owner };
        client.begin("turns db exclusive 2000");
        if turn % 2 == 0 {
            if let Some(broker) = sandbox.broker() {
                // This may be the broker that was killed before, if the next one has not written its number
                // yet.
                let _ = kill_process(broker, Signal::KILL);
            }
        }
        let said = client.worker.read_line();
        let token: u64 = said.strip_prefix("token ").unwrap().parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[test]
fn readers_in_two_processes_own_a_name_side_by_side_until_a_writer_comes() {
    let sandbox = Sandbox::new();
    let mut readers = [(); 2].map(|()| Client::start(&sandbox));
    for reader in &mut readers {
        reader.tell("own db shared");
    }
    let stopped = Stopped::broker(&sandbox);
    let mut last = 0;
    for _ in 0..3 {
        for reader in &mut readers {
            let token = reader.token("turns db shared 100");
            assert!(token > last, "{token} after {last}");
            last = token;
        }
    }
    for reader in &mut readers {
        last = reader.token("lock db shared");
    }
    drop(stopped);
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    for reader in &mut readers {
        reader.tell("release");
    }
    assert!(sandbox.fence("db") > last);
    assert!(readers[0].token("lock db shared") > last);
}
