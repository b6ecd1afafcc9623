//! Daemons of an older release that follow a daemon of today.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// The variable with the daemon's place, for the process that a test starts.
const PLACE: &str = "NAVLOCK_TEST_OWNER";

/// The beginning of the lines by which that process says how far it is.
const SAYS: &str = "the owner ";

/// The file that is made when a daemon has given the client up.
fn mark(place: &Place) -> PathBuf {
    place.socket().with_extension("given-up")
}

/// Runs a client that takes a name that it owns again and again, and holds another one.
fn own_and_hold(place: &Place) {
    let reach = connect(place);
    let locks = lock_manager(&reach);
    for name in ["idle", "held"] {
        own(&reach, &locks, name, Mode::Exclusive);
    }
    let held = soon(locks.lock("held")).unwrap();
    end_turn(&locks);
    let say = |what: &str| {
        println!("{SAYS}{what}");
        std::io::stdout().flush().unwrap();
    };
    say("holds");
    loop {
        // Looked at first, so that the take below comes after it.
        let is_given_up = mark(place).exists();
        let is_had = has_at_once(&locks, "idle");
        if is_given_up {
            assert!(!is_had, "it takes what may be another's");
            break;
        }
    }
    assert_eq!(soon(held.lost()), Lost::Disconnected);
    say("has lost");
    drop(soon(locks.lock("idle")).unwrap());
    end_turn(&locks);
    say("ends");
}

fn start(test: &str, place: &Place) -> Child {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(PLACE, place.socket());
    child.stdout(Stdio::piped()).spawn().unwrap()
}

/// Whether all threads of a process are stopped.
fn is_stopped(child: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    tasks.filter_map(Result::ok).all(|task| {
        let stat = fs::read_to_string(Path::new(&task.path()).join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

#[test]
#[cfg(target_os = "linux")]
fn a_stopped_holder_that_an_older_daemon_gave_up_knows_that_when_it_goes_on() {
    let test =
        "owned::older::a_stopped_holder_that_an_older_daemon_gave_up_knows_that_when_it_goes_on";
    if let Some(socket) = env::var_os(PLACE) {
        return own_and_hold(&Place::at(PathBuf::from(socket)));
    }
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let listener = Listener::bind(place.socket()).unwrap();
    let mut owner = start(test, &place);
    let mut broker = PlayedBroker::welcome(&listener, &place, VERSION);
    broker.serve();
    let mut said = BufReader::new(owner.stdout.take().unwrap()).lines();
    let mut says = |what: &str| {
        let line = format!("{SAYS}{what}");
        assert!(said.any(|said| said.unwrap() == line), "it does not say that it {what}");
    };
    says("holds");
    kill_process(Pid::from_child(&owner), Signal::STOP).unwrap();
    eventually("it is stopped", || is_stopped(&owner));
    // The next daemon is an older one, which knows nothing of maps. A daemon of today would recall the
    // names that the client owns.
    let file = broker.file.clone();
    drop(broker);
    fs::remove_file(&file).unwrap();
    // No event is waited for: a daemon gives running clients a second to notice before it grants their
    // locks to others.
    thread::sleep(Duration::from_secs(1));
    File::create(mark(&place)).unwrap();
    kill_process(Pid::from_child(&owner), Signal::CONT).unwrap();
    let mut older = PlayedBroker::welcome(&listener, &place, 4);
    let ((), claims) =
        older.raw.receive_until(|message| matches!(message, ToDaemon::Claimed).then_some(()));
    for claim in claims {
        match claim {
            ToDaemon::ClaimLock { .. } => panic!("{claim:?}"),
            ToDaemon::ClaimRequest { request, .. } => {
                let token = FencingToken::new(1000);
                older.raw.say(&[FromDaemon::Granted { request, token }]);
            }
            _ => {}
        }
    }
    says("has lost");
    // From here on the client sends only messages that the older daemon knows.
    let known =
        |said: &ToDaemon| matches!(said, ToDaemon::Request { .. } | ToDaemon::Finish { .. });
    let asked = older.serve();
    assert!(asked.iter().all(known), "{asked:?}");
    says("ends");
    assert!(owner.wait().unwrap().success());
}
