//! The oracle of names that are taken in bursts. A holder locks a file with flock(2), and writes what it has
//! had into its own cell of another file. Navlock knows nothing of either file. Both stay open, so that a
//! hold takes microseconds.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use navlock::Mode;
use rustix::fs::{FlockOperation, flock};

use crate::processes;

/// The number of threads that have a cell.
pub(crate) const CELLS: usize = 16;

/// The size of a cell in the file.
const STRIDE: usize = 64;

/// How long a process that was killed may keep its files.
const DYING: Duration = Duration::from_secs(20);

/// What one thread has had of one name. Only that thread writes it, while it holds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cell {
    /// The largest token of its exclusive locks.
    pub(crate) exclusive: u64,
    /// The largest token of all that have begun.
    pub(crate) begun: u64,
    /// The largest token of all that have ended.
    pub(crate) ended: u64,
    /// How many locks it was granted in its turn; stolen ones do not count.
    pub(crate) turns: u64,
    /// The instance that wrote the cell last.
    pub(crate) instance: u64,
}

impl Cell {
    fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        let fields = [self.exclusive, self.begun, self.ended, self.turns, self.instance];
        for (bytes, field) in bytes.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let field = |nth: usize| {
            let bytes = bytes[nth * 8..][..8].try_into().expect("there are eight");
            u64::from_ne_bytes(bytes)
        };
        let [exclusive, begun, ended, turns, instance] = [0, 1, 2, 3, 4].map(field);
        Self { exclusive, begun, ended, turns, instance }
    }
}

/// What all threads have had.
pub(crate) type Cells = [Cell; CELLS];

/// A process that is in the way of a holder.
pub(crate) struct Other {
    pub(crate) pid: i32,
    /// The process was killed, and has not ended yet.
    pub(crate) is_dying: bool,
}

/// One thread's view of one name.
pub(crate) struct Oracle {
    witness: File,
    cells: File,
    place: usize,
    pub(crate) mine: Cell,
    is_locked: bool,
}

impl Oracle {
    /// Opens it for the thread with this place among the cells.
    pub(crate) fn open(
        directory: &Path,
        name: &str,
        place: usize,
        instance: u64,
    ) -> io::Result<Self> {
        let open = |what: &str| {
            let path = directory.join(format!("{name}.{what}"));
            File::options().create(true).truncate(false).read(true).write(true).open(path)
        };
        let (witness, cells) = (open("owned")?, open("cells")?);
        // If the file has this length already, it keeps what others have written.
        cells.set_len((CELLS * STRIDE) as u64)?;
        let mut oracle = Self { witness, cells, place, mine: Cell::default(), is_locked: false };
        // Go on with the cell of the thread that had the place before.
        oracle.mine = Cell { instance, ..oracle.cells()[place] };
        Ok(oracle)
    }

    /// What all threads have had until now.
    pub(crate) fn cells(&self) -> Cells {
        let mut bytes = [0; CELLS * STRIDE];
        self.cells.read_exact_at(&mut bytes, 0).expect("it is that long");
        let mut cells = [Cell::default(); CELLS];
        for (cell, bytes) in cells.iter_mut().zip(bytes.chunks_exact(STRIDE)) {
            *cell = Cell::from_bytes(bytes);
        }
        cells
    }

    fn say(&self) {
        // The cell is within one page. A reader that sees half of it looks again before it complains.
        let at = (self.place * STRIDE) as u64;
        self.cells.write_all_at(&self.mine.to_bytes(), at).expect("the disk of the logs has room");
    }

    /// Takes the file's lock. If it is not free, reports who has it.
    pub(crate) fn lock(&mut self, mode: Mode, mut seen: impl FnMut(Other)) {
        let how = match mode {
            Mode::Shared => FlockOperation::NonBlockingLockShared,
            Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        let began = Instant::now();
        let mut is_dying = false;
        loop {
            self.is_locked = flock(&self.witness, how).is_ok();
            if self.is_locked {
                return;
            }
            let lockers = self.lockers(mode);
            let mut other = lockers.iter().copied().find(|pid| processes::lives(*pid));
            if other.is_some() {
                // A signal may arrive a moment after it was sent.
                thread::sleep(Duration::from_millis(2));
                other = other.filter(|pid| processes::lives(*pid));
            }
            if let Some(pid) = other {
                seen(Other { pid, is_dying: false });
                return;
            }
            if began.elapsed() > DYING {
                seen(Other { pid: -1, is_dying: false });
                return;
            }
            if !is_dying && !lockers.is_empty() {
                is_dying = true;
                seen(Other { pid: lockers[0], is_dying });
            }
            thread::yield_now();
        }
    }

    fn lockers(&self, mode: Mode) -> Vec<i32> {
        let inode = self.witness.metadata().map_or(0, |metadata| metadata.ino());
        processes::lockers(inode, mode == Mode::Shared)
    }

    /// Says that a hold has begun.
    pub(crate) fn begins(&mut self, mode: Mode, token: u64, in_turn: bool) {
        let mine = &mut self.mine;
        if mode == Mode::Exclusive {
            mine.exclusive = mine.exclusive.max(token);
        }
        mine.begun = mine.begun.max(token);
        mine.turns += u64::from(in_turn);
        self.say();
    }

    /// Says that a hold ends, before it does.
    pub(crate) fn ends(&mut self, token: u64) {
        self.mine.ended = self.mine.ended.max(token);
        self.say();
        if self.is_locked {
            self.is_locked = false;
            // Do not unlock by closing the file: a process that is being started may have a copy of it for a
            // moment.
            flock(&self.witness, FlockOperation::Unlock).expect("it is locked");
        }
    }

    /// Looks for a token that is not smaller than `token`, which was granted now in this mode, although the
    /// other token's lock must have ended before. Returns the other token and its instance.
    ///
    /// `before` is what had ended when a shared lock was asked for. While a shared lock is held, others are
    /// held whose tokens may be larger.
    pub(crate) fn larger(&self, mode: Mode, token: u64, before: &Cells) -> Option<(u64, u64)> {
        let look = || {
            let cells = self.cells();
            let largest = cells.iter().zip(before).map(|(cell, before)| match mode {
                Mode::Exclusive => (cell.begun, cell.instance),
                Mode::Shared => (cell.exclusive.max(before.ended), cell.instance),
            });
            largest.max().filter(|(other, _)| token <= *other)
        };
        look().and_then(|_| look())
    }
}
