//! That fencing tokens grow from one daemon to the next.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use navlock_core::FencingToken;

/// How far ahead of what is used up the file is.
const AHEAD: Duration = Duration::from_secs(60);

/// With less than this left, the file is written again.
const LOW: Duration = Duration::from_secs(20);

/// Where a daemon's fencing tokens begin, and the promise to later ones of where they end.
///
/// Tokens begin with the time of the start, in nanoseconds since 1970, and no daemon grants a lock
/// a nanosecond, so what is used up can be told from the time that has passed. That is enough for
/// as long as the clock goes forward. The file is for when it was turned back: it holds a number
/// that is larger than all that were given, and the next daemon begins with no less.
///
/// What is lost when both happen, the clock turned back and the file gone, nothing can save.
pub(super) struct Tokens {
    path: PathBuf,
    first: u64,
    started: Instant,
    promised: u64,
}

impl Tokens {
    /// Those of a daemon that starts now.
    pub(super) fn begin(path: PathBuf) -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // 64 bits of nanoseconds last until the year 2554.
        let first = nanoseconds(since_1970.unwrap_or_default()).max(promised(&path));
        let mut tokens = Self { path, first, started: Instant::now(), promised: first };
        tokens.keep_ahead();
        tokens
    }

    /// The first.
    pub(super) fn first(&self) -> FencingToken {
        FencingToken::new(self.first)
    }

    /// Renews the promise if it is about to be used up. To be called every few seconds.
    pub(super) fn keep_ahead(&mut self) {
        let used = self.used();
        if self.promised.saturating_sub(used) < nanoseconds(LOW) {
            self.promise(used.saturating_add(nanoseconds(AHEAD)));
        }
    }

    /// No more will be given.
    pub(super) fn end(mut self) {
        let used = self.used();
        self.promise(used);
    }

    /// All that were given are smaller.
    fn used(&self) -> u64 {
        self.first.saturating_add(nanoseconds(self.started.elapsed())).saturating_add(1)
    }

    fn promise(&mut self, number: u64) {
        // Somebody removed our files, and another broker has promised for itself.
        if promised(&self.path) > self.promised {
            return;
        }
        // If it cannot be written there is still the clock, and a broker that does not start
        // because a disk is full helps nobody.
        if write(&self.path, number).is_ok() {
            self.promised = number;
        }
    }
}

/// What an earlier daemon has promised, if that can be read.
fn promised(path: &Path) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}

fn write(path: &Path, number: u64) -> io::Result<()> {
    // Whole or not at all, whenever we are killed.
    let mut unborn = path.to_owned().into_os_string();
    unborn.push(".new");
    fs::write(&unborn, format!("{number}\n"))?;
    fs::rename(&unborn, path)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    fn first(path: &Path) -> u64 {
        Tokens::begin(path.to_owned()).first
    }

    #[test]
    fn tokens_grow_from_start_to_start_without_a_file_as_well() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let mut last = 0;
        for _ in 0..10 {
            let next = first(&path);
            assert!(next > last);
            last = next;
        }
        assert!(promised(&path) > last);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "no number").unwrap();
        assert!(first(&path) > nanoseconds(30 * YEAR));
    }

    #[test]
    fn tokens_grow_although_the_clock_was_turned_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        // As if by a clock that was a year ahead.
        let ahead = first(&path) + nanoseconds(YEAR);
        let promised = promised(&path);
        let mut before =
            Tokens { path: path.clone(), first: ahead, started: Instant::now(), promised };
        before.keep_ahead();
        let killed = first(&path);
        assert!(killed >= before.used());
        assert!(first(&path) > killed);
        // Two at one place, after somebody removed all files: the later promise stands.
        let last = super::promised(&path);
        before.end();
        assert_eq!(super::promised(&path), last);
    }
}
