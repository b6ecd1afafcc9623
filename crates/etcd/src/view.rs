//! What is known of a name in which ours take part, and what keeps that up to date.
//!
//! A name is watched from the moment on in which etcd has something of ours there, and for a while
//! after that, because who has used a name uses it again. Nothing is known of other names: what
//! others do there costs nothing here.

use std::time::Duration;

use crate::{
    clock::Uptime,
    mirror::{Entry, Event, Mirror},
    transactions::Owning,
};

/// For how long a name is watched that nobody uses any more.
pub(crate) const UNUSED: Duration = Duration::from_secs(30);

/// How many names are watched at most that nobody uses any more: then the one goes first that has
/// been unused for longest.
pub(crate) const MOST_UNUSED: usize = 1000;

/// How often a name in which ours wait is listed, in case that a watch has missed something.
const LOOK: Duration = Duration::from_secs(15);

/// How often this connection has to take a name at most to own it: the number doubles each time that others
/// want what is owned. So a name that wanders is rarely owned, and costs what it costs without that.
const MOST_TAKEN: u32 = 256;

/// For how long a name is not owned again that was given up to be shown: so who looks, and asks again ever more
/// rarely, sees once what is there.
const SHOWN: Duration = Duration::from_millis(250);

/// Whether a name is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    #[default]
    No,
    /// It may be: etcd was asked. Then it is so since a later revision than this.
    Asked(i64),
    /// Since this revision.
    Since(i64),
    /// It was since this revision, and is being given up.
    Leaving(i64),
}

/// One name.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) mirror: Mirror,
    /// The number of its watch, which no other has had.
    pub(crate) watch: u64,
    /// What the watch told before it was listed what had been; `None` once that is done.
    pub(crate) early: Option<Vec<Event>>,
    /// How often the watch has begun to tell of what happens from then on.
    begun: u64,
    looked: Uptime,
    is_looking: bool,
    /// Since when nobody uses it.
    unused: Option<Uptime>,
    pub(crate) own: Ownership,
    /// For whom alone it is to be ours: they were first in its queue.
    pub(crate) run: Vec<Entry>,
    /// How often it was taken in a row with nobody else there.
    taken: u32,
    /// How often that has to be to own it.
    needed: u32,
    /// When it was given up last to be shown.
    shown: Option<Uptime>,
    /// How often it had been granted since it is ours when it was last looked, and since when it is so.
    granted: (u64, Uptime),
}

impl View {
    /// A name of which nothing is known.
    pub(crate) fn unknown(watch: u64) -> Self {
        let (mirror, early) = (Mirror::default(), Some(Vec::new()));
        let looked = Uptime::now();
        let (begun, is_looking, unused, own) = (0, false, None, Ownership::No);
        let (run, taken, needed, shown, granted) = (Vec::new(), 0, 0, None, (0, looked));
        Self {
            mirror,
            watch,
            early,
            begun,
            looked,
            is_looking,
            unused,
            own,
            run,
            taken,
            needed,
            shown,
            granted,
        }
    }

    /// It is owned once it was taken so often.
    pub(crate) fn owned_after(&mut self, taken: u32) {
        self.needed = taken;
    }

    /// It was taken, with nobody else there. Whether that was often enough to own it.
    pub(crate) fn note_taken(&mut self) -> bool {
        self.taken = self.taken.saturating_add(1);
        self.taken >= self.needed && self.may_be_owned()
    }

    /// Whether it is not ours, and was not given up a moment ago to be shown.
    pub(crate) fn may_be_owned(&self) -> bool {
        self.own == Ownership::No && self.shown.is_none_or(|shown| shown.elapsed() >= SHOWN)
    }

    /// Etcd is asked to have it be ours, for a run or for all of ours.
    pub(crate) fn ask_to_own(&mut self, owning: &Owning) {
        self.own = Ownership::Asked(owning.after);
        self.run.clone_from(&owning.run);
    }

    /// Others look at it, and it is given up for that.
    pub(crate) fn note_shown(&mut self) {
        self.shown = Some(Uptime::now());
    }

    /// Others were seen there.
    pub(crate) fn note_others(&mut self) {
        self.taken = 0;
    }

    /// Others want it that was ours, or it was of no use that it was.
    pub(crate) fn note_wanted(&mut self) {
        self.taken = 0;
        self.needed = self.needed.max(self.needed.saturating_mul(2).min(MOST_TAKEN));
    }

    /// It was granted so often since it is ours. For how long it has not been granted again.
    pub(crate) fn idle_since(&mut self, granted: u64) -> Uptime {
        if self.granted.0 != granted {
            self.granted = (granted, Uptime::now());
        }
        self.granted.1
    }

    /// It is ours from now on.
    pub(crate) fn begin_owned(&mut self, made: i64) {
        self.own = Ownership::Since(made);
        self.run = Vec::new();
        self.granted = (0, Uptime::now());
    }

    /// A name in which this was all there was at this revision. The watch tells what comes after it.
    pub(crate) fn known(watch: u64, all: Vec<Event>, revision: i64) -> Self {
        let mut view = Self { early: None, ..Self::unknown(watch) };
        view.mirror.reset(all, revision);
        view
    }

    /// The watch tells from now on. What was before is to be listed, and a list that is on its way
    /// is older.
    pub(crate) fn begin(&mut self) {
        self.early = Some(Vec::new());
        self.begun += 1;
        self.is_looking = false;
    }

    /// Whether it is to be listed now, because it is not being listed. It is from here on, and the
    /// answer is to [say](Self::looked) this number.
    pub(crate) fn look(&mut self) -> Option<u64> {
        if std::mem::replace(&mut self.is_looking, true) {
            return None;
        }
        self.looked = Uptime::now();
        Some(self.begun)
    }

    /// It was listed. Whether that is of use: the watch has not begun anew meanwhile.
    pub(crate) fn looked(&mut self, begun: u64) -> bool {
        let is_it = begun == self.begun;
        self.is_looking &= !is_it;
        is_it
    }

    pub(crate) fn is_due(&self) -> bool {
        self.looked.elapsed() > LOOK
    }

    /// Whether there is anybody who uses it. Since when there is nobody.
    pub(crate) fn note_use(&mut self, is_used: bool) -> Option<Uptime> {
        if is_used {
            self.unused = None;
        } else {
            self.unused.get_or_insert_with(Uptime::now);
        }
        self.unused
    }
}
