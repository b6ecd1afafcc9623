//! Connects to the daemon, and starts one if there is none.

mod startup_lines;

use std::{
    env,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf, absolute},
    process::{self, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use navlock_platform::{
    peer,
    process::{is_needed, let_go, seen},
    socket::{self, Stream},
};

use self::startup_lines::wait_until_ready;
pub use self::startup_lines::{READY_LINE, WAITS_FOR};
use crate::{
    CLIENT_LOGS, Place, PlaceError, buckets::OF_OWN, connect_error::Reason, deadline::Deadline,
    lock_file, place::STORE_VARIABLE, this_process::program_name,
};

/// How long a daemon may take to accept a client, and to answer its first message.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// How long a daemon may take to listen.
const READY: Duration = Duration::from_secs(10);

/// How long this client waits while another client starts a daemon. The lock of the client that
/// starts a daemon only saves work. The daemon's own lock ensures that there is only one daemon.
///
/// The other client may have been stopped. So of the two seconds that a client has that does not want to wait
/// for a lock, enough must be left to start a daemon.
const TURN: Duration = Duration::from_secs(1);

/// How often a client checks whether there is a daemon, while another client starts one.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The variable that tells a program that it was started to serve.
pub(crate) const MARKER: &str = "NAVLOCK_SERVE_CARRIED";

/// The command that starts this program once more, if the program serves when it is started for that. Another
/// program would do its own work once more instead, so it is never started for that.
pub(crate) static CARRIES: OnceLock<Vec<OsString>> = OnceLock::new();

/// How long it may take to find out whether the daemon is stopped.
const SHORT: Duration = Duration::from_millis(100);

/// The process number of the daemon at this place, if the process is stopped. Blocks, but not for long.
pub fn stopped_broker(place: &Place) -> Option<u32> {
    let socket = connect_to_running(place, Deadline::after(SHORT)).ok()?;
    let number = peer::listener(&socket)?.number();
    seen(number).is_some_and(|process| process.is_stopped).then_some(number)
}

/// A connection to the daemon at `place`. If there is no daemon, one is started.
///
/// If many clients find no daemon at the same time, only one of them starts a daemon, because a
/// client that gets the lock first checks again whether there is a daemon.
pub(crate) fn connect_or_start(
    place: &Place,
    program: Option<&Path>,
    deadline: Deadline,
) -> Result<Stream, Reason> {
    place.prepare()?;
    if let Some(stream) = connect(place, deadline.cap(ANSWER))? {
        return Ok(stream);
    }
    let _turn = match wait_for_turn(place, deadline)? {
        StartTurn::Connected(stream) => return Ok(stream),
        StartTurn::Come(file) => file,
    };
    if let Some(stream) = connect(place, deadline.cap(ANSWER))? {
        return Ok(stream);
    }
    let started = start(place, program, deadline);
    // The clients that wait for their turn find the daemon listening. The daemon that listens may
    // be another one than the one that was just started: the client that started the other one may
    // have been killed or stopped.
    match connect(place, deadline.cap(ANSWER))? {
        Some(stream) => Ok(stream),
        None => Err(started.err().unwrap_or(Reason::Vanished)),
    }
}

/// A connection to the daemon at `place`, if there is one.
pub(crate) fn connect_to_running(place: &Place, deadline: Deadline) -> Result<Stream, Reason> {
    let none = if place.is_of_system() { Reason::NoSystemBroker } else { Reason::NotRunning };
    match place.check() {
        // Without a directory, no daemon has run yet: the first daemon makes the directory.
        Err(PlaceError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(none);
        }
        checked => checked?,
    }
    connect(place, deadline.cap(ANSWER))?.ok_or(none)
}

/// A connection to the socket, or `None` if nobody listens there.
pub(crate) fn connect(place: &Place, timeout: Duration) -> Result<Option<Stream>, Reason> {
    let deadline = Instant::now() + timeout;
    loop {
        match socket::connect(place.socket()) {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) => match error.kind() {
                // The connection is refused if a daemon was killed and its socket still exists.
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => return Ok(None),
                io::ErrorKind::Interrupted => {}
                // The queue of connections that wait to be accepted is full.
                io::ErrorKind::WouldBlock if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(5));
                }
                io::ErrorKind::WouldBlock => return Err(Reason::Silent(timeout)),
                _ => return Err(Reason::Io("connecting", error.into())),
            },
        }
    }
}

/// The outcome of a wait to start a daemon.
enum StartTurn {
    /// There is a daemon.
    Connected(Stream),
    /// It is this client's turn to start the daemon. The file is the lock for this turn, if the
    /// client could get the lock.
    Come(Option<fs::File>),
}

/// Waits until there is a daemon, or no other client is starting one, or the client that is
/// starting one takes too long (it may have been stopped). When the file is dropped, other clients
/// can start a daemon.
fn wait_for_turn(place: &Place, deadline: Deadline) -> Result<StartTurn, Reason> {
    let turn_ends = Instant::now() + deadline.cap(turn_of(process::id()));
    let path = place.spawn_lock();
    loop {
        match lock_file::lock(
            &path,
            CHECK_INTERVAL.min(turn_ends.saturating_duration_since(Instant::now())),
        ) {
            Ok(Some(file)) => return Ok(StartTurn::Come(Some(file))),
            Ok(None) => {}
            // If this error hinders the daemon too, the daemon will report it.
            Err(_) => return Ok(StartTurn::Come(None)),
        }
        if let Some(stream) = connect(place, deadline.cap(ANSWER))? {
            return Ok(StartTurn::Connected(stream));
        }
        if deadline.has_passed() {
            return Err(Reason::LockFile(path, io::ErrorKind::WouldBlock.into()));
        }
        if Instant::now() >= turn_ends {
            return Ok(StartTurn::Come(None));
        }
    }
}

/// How long the client with this process number waits. The clients stop waiting at different times, so that
/// the first of them starts a daemon and the others find that daemon.
fn turn_of(number: u32) -> Duration {
    TURN + Duration::from_millis(u64::from(number % 32) * 8)
}

/// Starts a daemon and waits until it listens.
fn start(place: &Place, program: Option<&Path>, deadline: Deadline) -> Result<(), Reason> {
    let ready_by = Instant::now() + READY;
    if env::var_os(MARKER).is_some() {
        let why = "the program was started to serve, and does not call serve_if_asked() first";
        return Err(Reason::Failed(why.to_owned()));
    }
    let named = program.map(Path::to_owned).or_else(|| env::var_os("NAVLOCK_BIN").map(Into::into));
    let own = CARRIES.get().filter(|_| named.is_none()).and_then(|command| command.split_first());
    let is_own = own.is_some();
    let (program, arguments) = match own {
        Some((program, arguments)) => (PathBuf::from(program), arguments.to_vec()),
        None => (named.unwrap_or_else(|| "navlock".into()), vec!["daemon".into(), "run".into()]),
    };
    let program = from_here(program);
    let failed = |error: io::Error| Reason::Program(program.clone(), error.into());
    // The stream carries what the daemon writes while it starts. When the daemon has begun to
    // listen, the daemon closes the stream.
    let (mut said, saying) = socket::hearing().map_err(failed)?;
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| is_for_a_broker(name)))
        .env("NAVLOCK_STARTED_BY", format!("process {} {}", process::id(), program_name()))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(saying.try_clone().map_err(failed)?)
        .stderr(saying)
        .env("NAVLOCK_SOCKET", place.socket())
        .envs(is_own.then_some((MARKER, "1")));
    command.env_remove(STORE_VARIABLE);
    if place.store().is_some() {
        // The broker of a store is on no other one.
        for variable in OF_OWN {
            command.env_remove(variable);
        }
    }
    let_go(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    let socket = place.socket().display();
    tracing::info!(target: CLIENT_LOGS, pid = child.id(), %socket, "a broker is started");
    // This closes our copies of the stream, so that the stream ends when the daemon ends.
    drop(command);
    let ready = wait_until_ready(&mut said, deadline.cap(READY));
    let is_late = matches!(ready, Err(Reason::NotReady(_) | Reason::Waits(..)));
    let is_starting = is_late && Instant::now() < ready_by;
    if ready.is_err() && !is_starting {
        let _ = child.kill();
        let _ = child.wait();
        return ready;
    }
    // Either the daemon listens, or our time is over and the daemon will listen for the next
    // client.
    //
    // Only this process, the daemon's parent, can wait for the daemon's end. If nobody waited, the
    // ended daemon would stay a zombie as long as this process lives.
    let reaper = thread::Builder::new().name("navlock-reaper".to_owned());
    let _ = reaper.spawn(move || child.wait());
    ready
}

/// Whether a broker gets this variable from the client that happens to start the broker. Other
/// clients use the broker too. So it gets only the variables that a program needs to be found and to
/// start, and the variables that are meant for brokers. Other variables may be secret.
fn is_for_a_broker(name: &OsStr) -> bool {
    const USUAL: [&str; 14] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TZ",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "DYLD_LIBRARY_PATH",
        "DYLD_FALLBACK_LIBRARY_PATH",
        "RUST_BACKTRACE",
        "LLVM_PROFILE_FILE",
    ];
    is_needed(name)
        || USUAL.iter().any(|usual| name == *usual)
        || ["NAVLOCK", "LC_"]
            .iter()
            .any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()))
}

/// The path or name by which the program must be called from another working folder. A name is
/// looked up in the `PATH`. A relative path is made absolute in the current working folder.
fn from_here(program: PathBuf) -> PathBuf {
    let is_name = program.file_name() == Some(program.as_os_str());
    // If there is no working folder, the program will not be found, and the caller reports that.
    if is_name { program } else { absolute(&program).unwrap_or(program) }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{
        fmt,
        sync::{Arc, Mutex},
    };

    use super::*;

    /// Such a client does not wait for a lock, but gives the broker two seconds.
    #[test]
    fn beside_a_stopped_starter_there_is_time_left_to_start_a_daemon() {
        assert!((0..64).all(|number| turn_of(number) < Duration::from_millis(1300)));
        assert_ne!(turn_of(1), turn_of(2));
    }

    #[test]
    #[cfg(not(target_vendor = "apple"))]
    fn a_daemon_that_has_stopped_accepting_is_silent_and_nobody_waits_forever() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None);
        let listener = listener.unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let timeout = Duration::from_millis(50);
        let mut waiting = Vec::new();
        let silent = loop {
            match connect(&place, timeout) {
                Ok(stream) => waiting.push(stream.unwrap()),
                Err(reason) => break reason,
            }
        };
        assert_eq!(silent, Reason::Silent(timeout));
        assert!(!waiting.is_empty());
    }

    /// The messages that are logged in this thread, each with its target.
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl tracing::Subscriber for Told {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &tracing::Event<'_>) {
            struct Text(String);
            impl tracing::field::Visit for Text {
                fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                    self.0.extend([" ", field.name(), "=", &format!("{value:?}")]);
                }
            }
            let mut text = Text(event.metadata().target().to_owned());
            event.record(&mut text);
            self.0.lock().unwrap().push(text.0);
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn a_tracing_subscriber_is_told_that_a_client_starts_a_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let told = Told::default();
        tracing::subscriber::with_default(told.clone(), || {
            let started = connect_or_start(&place, Some(Path::new("true")), Deadline::none());
            assert_eq!(started.unwrap_err(), Reason::Vanished);
        });
        let told = told.0.lock().unwrap();
        let text = format!("socket={}", place.socket().display());
        let is_it = |line: &String| line.starts_with("navlock::client ") && line.contains(&text);
        assert!(told.iter().any(is_it), "{told:?}");
    }

    #[test]
    fn a_daemon_that_ends_without_a_word_has_vanished() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let started = connect_or_start(&place, Some(Path::new("true")), Deadline::none());
        assert_eq!(started.unwrap_err(), Reason::Vanished);
    }
}
