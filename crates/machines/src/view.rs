//! What this connection knows of a name that it uses, and the watch that keeps it up to date.
//!
//! A name is watched as soon as the store has a key of this connection for it, and for a while after the
//! last such key has gone, because a name that was used is often used again. Nothing is known of
//! other names, so what other machines do with them costs nothing here.

use std::time::Duration;

use crate::{
    clock::Uptime,
    lease::LeaseTimes,
    mirror::{Entry, Mirror},
    transactions::{AskPurpose, Owning},
    watched::Event,
};

/// How long a name is still watched when this connection does not use it any more.
pub(crate) const UNUSED: Duration = Duration::from_secs(30);

/// How many names that this connection does not use are watched at most. If there are more, the
/// name that has been unused for longest is forgotten.
pub(crate) const MOST_UNUSED: usize = 1000;

/// How often a name for which requests of ours wait is listed, in case the watch has missed
/// something.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The largest number of takes in a row that a connection may need to own a name. The number that is
/// needed doubles each time that others want the name while it is owned. So a name that wanders between
/// machines is rarely owned, and costs what it would cost without owning.
const MOST_TAKEN: u32 = 256;

/// Whether this connection owns a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    #[default]
    No,
    /// The store was asked for the name. If the store agrees, the name is owned since a later revision than
    /// this.
    Asked(i64),
    /// The name is owned since this revision.
    Since(i64),
    /// The name was owned since this revision, and is being given up.
    Leaving(i64),
}

/// What is known of one name.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) mirror: Mirror,
    /// The number of the name's watch, which no other watch has had.
    pub(crate) watch: u64,
    /// The events that the watch told before the first list came; `None` when the list has come.
    pub(crate) early: Option<Vec<Event>>,
    /// How often the watch has begun. A list from before the last beginning is useless.
    begun: u64,
    looked: Uptime,
    is_looking: bool,
    /// Since when nobody here uses the name.
    unused: Option<Uptime>,
    pub(crate) own: Ownership,
    /// The requests of a run, which were first in the queue, if the name is to be owned for these
    /// alone. Empty if it is to be owned for all requests of this connection.
    pub(crate) run: Vec<Entry>,
    /// How often the name was taken in a row while nobody else was there.
    taken: u32,
    /// How many such takes are needed to own the name.
    needed: u32,
    /// When it was seen that the owner key of this connection has gone, for a reason that is not known
    /// yet. Nobody is told before it is known whether the lease has gone as well.
    pub(crate) strayed: Option<Uptime>,
    /// The revision that had last written the owner key of another connection when that connection was
    /// asked for the name, because requests wait for it here, and when that was.
    asked: Option<(i64, Uptime)>,
    /// The revision that had written the question of others to see the name that was answered last, and when that was.
    pub(crate) said: Option<(i64, Uptime)>,
    /// If others have asked for the name by the mailbox: the last term before they did. Locks of which the store
    /// does not know when the term ends are lost, and it is kept until the work under these has ended.
    pub(crate) deadline: Option<LeaseTimes>,
    /// How often the name had been granted since it is owned, as of the last look, and since when this
    /// number has not changed.
    granted: (u64, Uptime),
}

impl View {
    /// A name of which nothing is known.
    pub(crate) fn unknown(watch: u64) -> Self {
        let looked = Uptime::now();
        let (early, granted) = (Some(Vec::new()), (0, looked));
        Self { watch, early, looked, granted, ..Self::default() }
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

    /// Whether the name is not owned, and nobody has asked for it who may not have it yet.
    pub(crate) fn may_be_owned(&self) -> bool {
        self.own == Ownership::No && self.deadline.is_none()
    }

    /// Whether others have asked this connection, which is `me`, for the name itself.
    pub(crate) fn is_asked_for(&self, me: u128) -> bool {
        let asks = self.mirror.owned(me).and_then(|owned| AskPurpose::of(&owned.value));
        self.deadline.is_some() || asks == Some(AskPurpose::ToHave)
    }

    /// Notes whether this connection owns the name. A deadline that was met is over.
    pub(crate) fn set_own(&mut self, own: Ownership) {
        self.own = own;
        if own == Ownership::No && !self.is_late() {
            self.deadline = None;
        }
    }

    /// Whether the name could not be given up in time.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline.ends <= Uptime::now())
    }

    /// Whether work may still go on under locks that are lost because the name could not be given up in time.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_late() && self.deadline.is_some_and(|deadline| deadline.expires > Uptime::now())
    }

    /// Notes that the store is asked for the name, for a run or for all requests of this connection.
    pub(crate) fn ask_to_own(&mut self, owning: &Owning) {
        self.own = Ownership::Asked(owning.after);
        self.run.clone_from(&owning.run);
    }

    /// Whether the owner of the name is to be asked for it now, whose key this revision has written last.
    /// It is asked once, and again after this time: what was written then may have been lost.
    pub(crate) fn may_ask(&mut self, written: i64, again: Duration) -> bool {
        let is_asked = |&(of, at): &(i64, Uptime)| of == written && at.elapsed() < again;
        let may_ask = !self.asked.as_ref().is_some_and(is_asked);
        if may_ask {
            self.asked = Some((written, Uptime::now()));
        }
        may_ask
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

    /// Takes in how often the name was granted since it is owned. Returns since when it was not
    /// granted again.
    pub(crate) fn idle_since(&mut self, granted: u64) -> Uptime {
        if self.granted.0 != granted {
            self.granted = (granted, Uptime::now());
        }
        self.granted.1
    }

    /// Notes that the name is owned from now on.
    pub(crate) fn begin_owned(&mut self, made: i64) {
        self.own = Ownership::Since(made);
        self.run = Vec::new();
        self.strayed = None;
        self.granted = (0, Uptime::now());
    }

    /// Notes that the watch has begun. What was there before has to be listed. A list that is on
    /// its way already is too old.
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

    /// Notes that the name was listed. Returns whether the list is of use. It is not if the watch
    /// has begun anew meanwhile.
    pub(crate) fn looked(&mut self, begun: u64) -> bool {
        let is_it = begun == self.begun;
        self.is_looking &= !is_it;
        is_it
    }

    /// Whether to list the name again: now and then, and if the watch has not told for this long what this
    /// connection has done. Then the watch may also keep back that its requests are the next ones.
    pub(crate) fn is_due(&self, patience: Duration) -> bool {
        let since = self.looked.elapsed();
        since > CHECK_INTERVAL || since > patience && self.mirror.is_behind(patience)
    }

    /// Notes whether this connection uses the name. Returns since when it does not.
    pub(crate) fn note_use(&mut self, is_used: bool) -> Option<Uptime> {
        if is_used {
            self.unused = None;
        } else {
            self.unused.get_or_insert_with(Uptime::now);
        }
        self.unused
    }
}
