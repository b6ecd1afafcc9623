//! Starting a daemon when there is none.

use std::{
    ffi::OsString,
    fs, io,
    io::Read,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{
    Place,
    daemon::{READY_LINE, open_lock_file},
    error::Reason,
};

/// How long a daemon may take to listen.
const READY: Duration = Duration::from_secs(10);

/// How long somebody else may take to start one.
const STARTING: Duration = Duration::from_secs(15);

/// A connection to the daemon at `place`, which is started if there is none.
///
/// Of many who find none at the same time one starts it: whoever gets the lock looks again first.
pub(crate) fn connect_or_start(
    place: &Place,
    program: Option<&Path>,
) -> Result<UnixStream, Reason> {
    place.prepare()?;
    if let Some(stream) = connect(place)? {
        return Ok(stream);
    }
    let _turn = wait_for_turn(&place.spawn_lock())?;
    if let Some(stream) = connect(place)? {
        return Ok(stream);
    }
    start(place, program)?;
    // Those who wait for their turn find it listening.
    connect(place)?.ok_or(Reason::Vanished)
}

/// A connection, unless nobody listens.
fn connect(place: &Place) -> Result<Option<UnixStream>, Reason> {
    match UnixStream::connect(place.socket()) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            // Refused: a daemon was killed and its socket is still there.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
            _ => Err(Reason::Io("connecting", error.kind())),
        },
    }
}

/// Takes the lock of those who want to start a daemon. Dropping the file releases it.
fn wait_for_turn(path: &Path) -> Result<fs::File, Reason> {
    let failed = |error: io::Error| Reason::LockFile(path.to_owned(), error.kind());
    let file = open_lock_file(path).map_err(failed)?;
    let deadline = Instant::now() + STARTING;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            // There is no waiting for a file lock with a deadline.
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(failed(error.into())),
        }
    }
}

/// Starts a daemon and waits until it listens.
fn start(place: &Place, program: Option<&Path>) -> Result<(), Reason> {
    let program = match program {
        Some(program) => program.as_os_str().to_owned(),
        None => std::env::var_os("NAVLOCK_BIN").unwrap_or_else(|| OsString::from("navlock")),
    };
    let failed = |error: io::Error| Reason::Program(program.clone().into(), error.kind());
    // What the daemon has to say on its way up. It lets go of it once it listens.
    let (mut said, saying) = UnixStream::pair().map_err(failed)?;
    let saying = OwnedFd::from(saying);
    let mut command = Command::new(&program);
    command
        .args(["daemon", "run"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(saying.try_clone().map_err(failed)?)
        .stderr(saying);
    match place.chosen() {
        Some(socket) => command.env("NAVLOCK_SOCKET", socket),
        None => command.env_remove("NAVLOCK_SOCKET"),
    };
    let mut child = command.spawn().map_err(failed)?;
    // Ours are closed with this: the end of the stream is then the end of the daemon.
    drop(command);
    match wait_until_ready(&mut said) {
        Ok(()) => {
            // Nobody but us can take notice of its end, or it stays a zombie as long as we live.
            let reaper = thread::Builder::new().name("navlock-reaper".to_owned());
            let _ = reaper.spawn(move || child.wait());
            Ok(())
        }
        Err(reason) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(reason)
        }
    }
}

fn wait_until_ready(said: &mut UnixStream) -> Result<(), Reason> {
    const ENOUGH: usize = 4096;
    let deadline = Instant::now() + READY;
    let mut text = Vec::new();
    let mut bytes = [0; 512];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Reason::NotReady(READY));
        }
        let read = said.set_read_timeout(Some(left)).and_then(|()| said.read(&mut bytes));
        match read {
            Ok(0) => {
                let text = String::from_utf8_lossy(&text);
                let text = text.trim();
                // Who shows it says who we are.
                let text = text.strip_prefix("navlock: ").unwrap_or(text);
                return Err(Reason::Failed(text.to_owned()));
            }
            Ok(length) if text.len() < ENOUGH => text.extend_from_slice(&bytes[..length]),
            Ok(_) => {}
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted
                | io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut => {}
                kind => return Err(Reason::Io("waiting for it to start", kind)),
            },
        }
        if text.split(|&byte| byte == b'\n').any(|line| line == READY_LINE.as_bytes()) {
            return Ok(());
        }
    }
}
