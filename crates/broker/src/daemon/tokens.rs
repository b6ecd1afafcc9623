//! That fencing tokens grow from one daemon to the next.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use navlock_core::FencingToken;
use navlock_platform::{
    file::{careful, create_private_directories, make_file_private, open_directory_behind},
    file_lock::try_exclusive,
};
use navlock_wire::Moment;

use crate::{Place, clock, lock_file};

/// How far ahead of what is used up the files are.
const AHEAD: Duration = Duration::from_secs(60);

/// With less than this left, the files are written again.
const LOW: Duration = Duration::from_secs(20);

/// A file that is further ahead of the clock than this was not written by a daemon, or by one whose
/// clock was wrong beyond anything that is to be kept up with.
const BELIEVED: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// No token begins above this, so that there is always room to grow. It is the year 2262.
const LARGEST: u64 = 1 << 63;

/// Where a daemon's fencing tokens begin, and the promise to later ones of where they end.
///
/// Tokens begin with the time of the start, in nanoseconds since 1970, and no daemon grants a lock
/// a nanosecond, so what is used up can be told from the time that has passed. That is enough for
/// as long as the clock goes forward. The files are for when it was turned back: each holds a number
/// that is larger than all that were given, and the next daemon begins with no less. One is beside
/// the socket, which in `/tmp` may be gone after a restart of the machine; the other in the user's
/// own directory for such things, where brokers at several places share it.
///
/// What is lost when the clock is turned back and both files are gone, nothing can save.
pub(super) struct Tokens {
    beside: PathBuf,
    /// In the user's own directory, which may be on a file system that does not answer: it is looked
    /// at by other threads, and not waited for while somebody waits for us.
    state: Option<PathBuf>,
    /// Such a thread is at it.
    busy: Arc<AtomicBool>,
    first: u64,
    started: Instant,
    /// The same.
    began: Moment,
    promised: u64,
    disbelieved: Vec<PathBuf>,
}

/// How long the user's own directory may take to answer when a daemon starts, and when it ends.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a file says.
enum Found {
    /// All that were given are smaller.
    Promise(u64),
    /// It is not there, or cannot be read.
    Nothing,
    /// It is there, and cannot be what a daemon has written.
    Nonsense,
}

impl Tokens {
    /// Those of a daemon that starts now, by the system's clock. This is the last one that somebody has
    /// had without a daemon, as it says.
    pub(super) fn begin(beside: PathBuf, state: Option<&Path>, last: u64) -> Self {
        Self::begin_at(SystemTime::now(), beside, state, last)
    }

    fn begin_at(now: SystemTime, beside: PathBuf, state: Option<&Path>, last: u64) -> Self {
        let now = nanoseconds(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        let now = now.min(LARGEST);
        let state = state.map(Place::tokens_in);
        let mut tokens = Self {
            beside,
            state,
            busy: Arc::default(),
            first: now,
            started: Instant::now(),
            began: clock::now(),
            promised: 0,
            disbelieved: Vec::new(),
        };
        let beside = tokens.beside.clone();
        let kept = tokens.state.clone().and_then(|file| {
            let found = tokens.aside(PATIENCE, {
                let file = file.clone();
                move || {
                    // If it cannot be made, the file cannot be written either.
                    let directory = file.parent().unwrap_or(Path::new("/"));
                    let _ = create_private_directories(directory);
                    found(&file, now)
                }
            });
            Some((file, found?))
        });
        for (file, found) in
            [Some((beside.clone(), found(&beside, now))), kept].into_iter().flatten()
        {
            match found {
                Found::Promise(number) => tokens.first = tokens.first.max(number),
                Found::Nothing => {}
                Found::Nonsense => tokens.disbelieved.push(file),
            }
        }
        if is_believed(last, now) {
            tokens.first = tokens.first.max(last.saturating_add(1));
        }
        tokens.renew(PATIENCE);
        tokens
    }

    /// The first.
    pub(super) fn first(&self) -> FencingToken {
        FencingToken::new(self.first)
    }

    /// Added to a moment, a token that may be given then: all that were given before are smaller, and
    /// the promises are larger.
    pub(super) fn epoch(&self) -> u64 {
        self.first.wrapping_sub(self.began)
    }

    /// What was wrong with the files, for people, if anything was.
    pub(super) fn complaint(&self) -> Option<String> {
        let files: Vec<_> =
            self.disbelieved.iter().map(|file| file.display().to_string()).collect();
        (!files.is_empty()).then(|| {
            format!("begun without {}, which held no number that can be believed", files.join(", "))
        })
    }

    /// Renews the promise if it is about to be used up. To be called every few seconds.
    pub(super) fn keep_ahead(&mut self) {
        self.renew(Duration::ZERO);
    }

    fn renew(&mut self, patience: Duration) {
        let used = self.used();
        if self.promised.saturating_sub(used) < nanoseconds(LOW) {
            let before = self.promised;
            self.promised = used.saturating_add(nanoseconds(AHEAD));
            self.promise(self.promised, before, patience);
        }
    }

    /// No more will be given.
    pub(super) fn end(self) {
        self.promise(self.used(), self.promised, PATIENCE);
    }

    /// All that were given are smaller.
    fn used(&self) -> u64 {
        self.first.saturating_add(nanoseconds(self.started.elapsed())).saturating_add(1)
    }

    fn promise(&self, number: u64, before: u64, patience: Duration) {
        // If it cannot be written there is still the clock, and a broker that does not start
        // because a disk is full helps nobody.
        let _ = promise(&self.beside, number, before);
        if let Some(file) = self.state.clone() {
            self.aside(patience, move || promise(&file, number, before).is_ok());
        }
    }

    /// Has another thread do this, and waits for it so long. One at a time.
    fn aside<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.busy.swap(true, SeqCst) {
            return None;
        }
        let (done, is_done) = mpsc::channel();
        let busy = Arc::clone(&self.busy);
        let spawned = thread::Builder::new().name("navlock-tokens".to_owned()).spawn(move || {
            let outcome = work();
            busy.store(false, SeqCst);
            let _ = done.send(outcome);
        });
        if spawned.is_err() {
            self.busy.store(false, SeqCst);
        }
        is_done.recv_timeout(patience).ok()
    }
}

/// Has the file say no less than this; and no more, if what it says is what we have `promised`, and
/// not the promise of another: who removed our files has another broker beside us for a moment.
fn promise(file: &Path, number: u64, promised: u64) -> io::Result<()> {
    let directory = open_directory_behind(file.parent().unwrap_or(Path::new("/")))?;
    // Nobody writes between our look and our writing; if it cannot be locked, hardly anybody. The
    // lock that a daemon has on its own directory against cleaners is another, and shared.
    let _ = try_exclusive(&directory);
    let found = match found(file, number) {
        Found::Promise(found) if found > promised => found,
        _ => 0,
    };
    write(file, number.max(found))
}

/// What the file says, believed if that is not too far ahead of this number.
fn found(file: &Path, now: u64) -> Found {
    if lock_file::identity_at(file).is_none() {
        return Found::Nothing;
    }
    let number = lock_file::read_short(file).and_then(|text| text.trim().parse().ok());
    match number {
        Some(number) if is_believed(number, now) => Found::Promise(number),
        _ => Found::Nonsense,
    }
}

/// Whether that can be a daemon's number, which is not too far ahead of this one.
fn is_believed(number: u64, now: u64) -> bool {
    number <= now.saturating_add(nanoseconds(BELIEVED)).min(LARGEST)
}

fn write(path: &Path, number: u64) -> io::Result<()> {
    // Whole or not at all, whenever we are killed; and nobody else's business.
    let mut unborn = path.to_owned().into_os_string();
    unborn.push(format!(".{}.new", std::process::id()));
    let opened = careful().write(true).create(true).truncate(true).open(&unborn);
    let written = opened.and_then(|mut file| {
        make_file_private(&file)?;
        writeln!(file, "{number}")?;
        fs::rename(&unborn, path)
    });
    written.inspect_err(|_| _ = fs::remove_file(&unborn))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
