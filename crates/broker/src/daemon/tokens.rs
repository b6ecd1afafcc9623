//! Makes fencing tokens grow from one daemon to the next.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use navlock_core::FencingToken;
use navlock_platform::{
    file::{careful, create_private_directories, make_file_private, open_directory_behind},
    file_lock::try_exclusive,
};
use navlock_wire::Moment;

use crate::{Place, clock, lock_file, timed_work::within};

/// How far the number in the files is ahead of the tokens that were given.
const AHEAD: Duration = Duration::from_secs(60);

/// When the number in the files is ahead by less than this, the files are written again.
const LOW: Duration = Duration::from_secs(20);

/// A number in a file that is further ahead of the clock than this is not believed, because no
/// daemon has written it, unless the daemon's clock was absurdly wrong.
const BELIEVED: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// No daemon begins with a token above this, so that tokens always have room to grow. As a time,
/// this is the year 2262.
const LARGEST: u64 = 1 << 63;

/// The first fencing token of a daemon, and its promise to later daemons of how large its tokens
/// can become.
///
/// The first token is the time of the start, in nanoseconds since 1970. No daemon grants a lock each
/// nanosecond, so its tokens are below the time. This is enough as long as the clock goes forward.
/// The files are for the case that the clock was turned back. Each contains a number that is larger
/// than all tokens that were given, and the next daemon begins with at least this number. One file
/// is beside the socket; if the socket is in `/tmp`, this file may be gone after a restart of the
/// machine. The other file is in the user's own directory for such files, and the brokers of several
/// places share it.
///
/// If the clock is turned back and both files are gone, tokens may repeat, and nothing can prevent
/// it.
pub(super) struct Tokens {
    beside: PathBuf,
    /// The file in the user's own directory, which may be on a file system that does not answer. So
    /// other threads read and write the file, and the daemon does not wait for these threads while
    /// clients wait for it.
    state: Option<PathBuf>,
    /// A thread that reads or writes this file has another reference while it is at work.
    busy: Arc<()>,
    first: u64,
    started: Instant,
    /// The moment of the start, by the clock of [`Moment`]s.
    began: Moment,
    promised: u64,
    disbelieved: Vec<PathBuf>,
}

/// How long the user's own directory may take to answer when a daemon starts, and when it ends.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What a file says.
enum Found {
    /// All tokens that were given are smaller than this.
    Promise(u64),
    /// There is no file, or the file cannot be read.
    Nothing,
    /// There is a file, but no daemon can have written its contents.
    Implausible,
}

impl Tokens {
    /// The tokens of a daemon that starts now, by the system's clock. `last` is the last token that an
    /// owner of a name has had without a daemon, according to the owner's map.
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
            let found = tokens.aside(TIMEOUT, {
                let file = file.clone();
                move || {
                    // If the directory cannot be made, writing the file fails as well.
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
                Found::Implausible => tokens.disbelieved.push(file),
            }
        }
        if is_believed(last, now) {
            tokens.first = tokens.first.max(last.saturating_add(1));
        }
        tokens.renew(TIMEOUT);
        tokens
    }

    /// The first token.
    pub(super) fn first(&self) -> FencingToken {
        FencingToken::new(self.first)
    }

    /// A moment plus this number is a token that may be given at that moment: all tokens that were
    /// given before are smaller, and the promises in the files are larger.
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

    fn renew(&mut self, timeout: Duration) {
        let used = self.used();
        if self.promised.saturating_sub(used) < nanoseconds(LOW) {
            let before = self.promised;
            self.promised = used.saturating_add(nanoseconds(AHEAD));
            self.promise(self.promised, before, timeout);
        }
    }

    /// Writes that no more tokens will be given.
    pub(super) fn end(self) {
        self.promise(self.used(), self.promised, TIMEOUT);
    }

    /// A number that is larger than all tokens that were given.
    fn used(&self) -> u64 {
        self.first.saturating_add(nanoseconds(self.started.elapsed())).saturating_add(1)
    }

    fn promise(&self, number: u64, before: u64, timeout: Duration) {
        // If the file cannot be written, the clock alone still makes tokens grow. A broker that
        // does not start because a disk is full would help nobody.
        let _ = promise(&self.beside, number, before);
        if let Some(file) = self.state.clone() {
            self.aside(timeout, move || promise(&file, number, before).is_ok());
        }
    }

    /// Does this work on another thread, and waits for the result, but no longer than this time. There
    /// is one such thread at a time.
    fn aside<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let busy = Arc::clone(&self.busy);
        // One is kept here, one was just made, and a thread at work has one.
        if Arc::strong_count(&busy) > 2 {
            return None;
        }
        within(timeout, move || {
            let outcome = work();
            drop(busy);
            outcome
        })
    }
}

/// Writes this number into the file, unless the file has a larger promise of another broker.
/// `promised` is our own last promise, which may be replaced by a smaller one. (If somebody has
/// removed our files, there may be another broker for a moment.)
fn promise(file: &Path, number: u64, promised: u64) -> io::Result<()> {
    let directory = open_directory_behind(file.parent().unwrap_or(Path::new("/")))?;
    // While the directory is locked, nobody writes between our look and our write. If it cannot be
    // locked, such a write in between is unlikely enough. (The lock of a daemon on its own
    // directory, against cleaners, is a shared one.)
    let _ = try_exclusive(&directory);
    let found = match found(file, number) {
        Found::Promise(found) if found > promised => found,
        _ => 0,
    };
    write(file, number.max(found))
}

/// The number in the file, if it is not too far ahead of `now`.
fn found(file: &Path, now: u64) -> Found {
    if lock_file::identity_at(file).is_none() {
        return Found::Nothing;
    }
    let number = lock_file::read_short(file).and_then(|text| text.trim().parse().ok());
    match number {
        Some(number) if is_believed(number, now) => Found::Promise(number),
        _ => Found::Implausible,
    }
}

/// Whether a daemon can have written this number: not if it is too far ahead of `now`.
fn is_believed(number: u64, now: u64) -> bool {
    number <= now.saturating_add(nanoseconds(BELIEVED)).min(LARGEST)
}

fn write(path: &Path, number: u64) -> io::Result<()> {
    // The number is written to a file of another name first, so that the file is complete even if
    // we are killed. The new file is private.
    let mut temporary = path.to_owned().into_os_string();
    temporary.push(format!(".{}.new", std::process::id()));
    let opened = careful().write(true).create(true).truncate(true).open(&temporary);
    let written = opened.and_then(|mut file| {
        make_file_private(&file)?;
        writeln!(file, "{number}")?;
        fs::rename(&temporary, path)
    });
    written.inspect_err(|_| _ = fs::remove_file(&temporary))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
