//! What this connection knows of a name that it uses, and the watch that keeps it up to date.
//!
//! A name is watched as soon as etcd has a key of this connection for it, and for a while after the
//! last of these keys, because a name that was used is often used again. Nothing is known of other
//! names, so what other machines do there costs nothing here.

use std::time::Duration;

use crate::{
    clock::Uptime,
    mirror::{Entry, Event, Mirror},
    transactions::Owning,
};

/// How long a name is still watched once nobody here uses it.
pub(crate) const UNUSED: Duration = Duration::from_secs(30);

/// How many names that nobody here uses are watched at most: beyond that, the name goes that has
/// been unused for longest.
pub(crate) const MOST_UNUSED: usize = 1000;

/// How often a name for which requests of ours wait is listed, in case the watch has missed
/// something.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The most takes in a row that a connection needs to own a name: the number that is needed doubles each
/// time that others want the name while it is owned. So a name that wanders between machines is rarely
/// owned, and costs what it would cost without owning.
const MOST_TAKEN: u32 = 256;

/// How long a name that was given up to be shown is not owned again. A caller that wants to see it
/// asks again, ever more rarely, and at least once within this time.
const SHOWN: Duration = Duration::from_millis(250);

/// Whether this connection owns a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    #[default]
    No,
    /// Perhaps: etcd was asked for it. If it agrees, the name is owned since a later revision than
    /// this.
    Asked(i64),
    /// It is owned since this revision.
    Since(i64),
    /// It was owned since this revision, and is being given up.
    Leaving(i64),
}

/// What is known of one name.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) mirror: Mirror,
    /// The number of its watch, which no other watch has had.
    pub(crate) watch: u64,
    /// The events that the watch told before the first list came; `None` once it has come.
    pub(crate) early: Option<Vec<Event>>,
    /// How often the watch has begun, which makes a list from before that useless.
    begun: u64,
    looked: Uptime,
    is_looking: bool,
    /// Since when nobody here uses the name.
    unused: Option<Uptime>,
    pub(crate) own: Ownership,
    /// The requests for which alone the name is to be owned: those that were first in its queue.
    /// Empty if it is to be owned for all of ours.
    pub(crate) run: Vec<Entry>,
    /// How often the name was taken in a row while nobody else was there.
    taken: u32,
    /// How many such takes are needed to own it.
    needed: u32,
    /// When the name was last given up to be shown.
    shown: Option<Uptime>,
    /// How often the name had been granted since it is owned, as of the last look; and since when this
    /// number stands.
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

    /// Sets how many takes in a row are needed to own the name.
    pub(crate) fn owned_after(&mut self, taken: u32) {
        self.needed = taken;
    }

    /// Notes a take while nobody else was there. Returns whether the name may be owned now.
    pub(crate) fn note_taken(&mut self) -> bool {
        self.taken = self.taken.saturating_add(1);
        self.taken >= self.needed && self.may_be_owned()
    }

    /// Whether the name is not owned, and was not given up a moment ago to be shown.
    pub(crate) fn may_be_owned(&self) -> bool {
        self.own == Ownership::No && self.shown.is_none_or(|shown| shown.elapsed() >= SHOWN)
    }

    /// Notes that etcd is asked for the name, for a run or for all of ours.
    pub(crate) fn ask_to_own(&mut self, owning: &Owning) {
        self.own = Ownership::Asked(owning.after);
        self.run.clone_from(&owning.run);
    }

    /// Notes that the name is given up to be shown.
    pub(crate) fn note_shown(&mut self) {
        self.shown = Some(Uptime::now());
    }

    /// Notes that others were seen at the name.
    pub(crate) fn note_others(&mut self) {
        self.taken = 0;
    }

    /// Notes that others want the name while it is owned, or that it was of no use to own it.
    pub(crate) fn note_wanted(&mut self) {
        self.taken = 0;
        self.needed = self.needed.max(self.needed.saturating_mul(2).min(MOST_TAKEN));
    }

    /// Takes how often the name was granted since it is owned. Returns since when it was not
    /// granted again.
    pub(crate) fn idle_since(&mut self, granted: u64) -> Uptime {
        if self.granted.0 != granted {
            self.granted = (granted, Uptime::now());
        }
        self.granted.1
    }

    /// The name is owned from now on.
    pub(crate) fn begin_owned(&mut self, made: i64) {
        self.own = Ownership::Since(made);
        self.run = Vec::new();
        self.granted = (0, Uptime::now());
    }

    /// A name for which etcd had exactly these keys at this revision. The watch tells what comes
    /// after it.
    pub(crate) fn known(watch: u64, all: Vec<Event>, revision: i64) -> Self {
        let mut view = Self { early: None, ..Self::unknown(watch) };
        view.mirror.reset(all, revision);
        view
    }

    /// The watch has begun. What was there before has to be listed; a list that is on its way
    /// already is too old.
    pub(crate) fn begin(&mut self) {
        self.early = Some(Vec::new());
        self.begun += 1;
        self.is_looking = false;
    }

    /// Begins to list the name, unless it is being listed already. The answer must be
    /// [noted](Self::looked) with the number that this returns.
    pub(crate) fn look(&mut self) -> Option<u64> {
        if std::mem::replace(&mut self.is_looking, true) {
            return None;
        }
        self.looked = Uptime::now();
        Some(self.begun)
    }

    /// The name was listed. Returns whether the list is of use: not if the watch has begun anew
    /// meanwhile.
    pub(crate) fn looked(&mut self, begun: u64) -> bool {
        let is_it = begun == self.begun;
        self.is_looking &= !is_it;
        is_it
    }

    pub(crate) fn is_due(&self) -> bool {
        self.looked.elapsed() > CHECK_INTERVAL
    }

    /// Notes whether anybody here uses the name. Returns since when nobody does.
    pub(crate) fn note_use(&mut self, is_used: bool) -> Option<Uptime> {
        if is_used {
            self.unused = None;
        } else {
            self.unused.get_or_insert_with(Uptime::now);
        }
        self.unused
    }
}
