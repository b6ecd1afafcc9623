//! Why a worker may have lost what it held, or may not get what it asks for.

use crate::{
    history::{Hold, Instance, Interval, Kind, Trouble},
    judge::{Judge, SECOND, TIME_TO_LIVE},
    options::Reach,
    owner::{OWNED, STOLEN},
    worker::NAMES,
};

/// How long a new broker waits for the earlier one's clients, and how long it takes to begin.
const RECOVERY: u64 = 11 * SECOND;

impl Judge<'_> {
    /// Why this worker's lock may be another's by now, though the worker has not noticed.
    pub(crate) fn may_overlap(&self, instance: u64, name: &str, at: u64) -> Option<&'static str> {
        let it = self.history.instances.get(&instance)?;
        if matches!(it.kind, Kind::Rogue) {
            return None;
        }
        if it.closes() && it.is_orphaned(at) {
            return Some("with --close a command does not hold without its navlock");
        }
        if self.was_stolen(instance, it, name, at) {
            return Some("it was stolen from");
        }
        if self.was_forgotten(instance, it, name, at) {
            return Some("its files were removed, and nobody could make them anew");
        }
        match self.reach {
            Reach::Broker => {
                let is_kept_by_its_command = matches!(it.kind, Kind::Run { closes: false, .. });
                if !is_kept_by_its_command && self.was_given_up(it, at) {
                    return Some("it was stopped, and comes back too late");
                }
            }
            Reach::Etcd | Reach::Postgres => {
                if was_away(it, at, TIME_TO_LIVE / 3) && self.broker_changed(it, at) {
                    return Some("it was stopped, and comes back too late");
                }
                if it.is_orphaned(at) && self.broker_was_away(it, at, TIME_TO_LIVE / 3 * SECOND) {
                    return Some("nobody could tell a command without its navlock");
                }
            }
        }
        None
    }

    /// Why this worker may be told that it has lost this name or, without a name, one of the names that it
    /// has.
    pub(crate) fn may_lose(
        &self,
        instance: u64,
        name: Option<&str>,
        at: u64,
    ) -> Option<&'static str> {
        let it = self.history.instances.get(&instance)?;
        let names: Vec<&str> = match &it.kind {
            Kind::Run { names, .. } => names.iter().map(String::as_str).collect(),
            Kind::Client | Kind::Rogue => NAMES.into(),
            Kind::Owner { .. } => OWNED.into(),
        };
        let names = name.map_or(names, |name| vec![name]);
        if names.iter().any(|name| self.was_stolen(instance, it, name, at)) {
            return Some("it was stolen from");
        }
        if names.iter().any(|name| self.was_forgotten(instance, it, name, at)) {
            return Some("its files were removed, and nobody could make them anew");
        }
        match self.reach {
            // A worker that cannot reach a broker keeps its locks until another broker gives it up.
            Reach::Broker => {
                if self.was_given_up(it, at) {
                    return Some("it was stopped, and comes back too late");
                }
            }
            Reach::Etcd | Reach::Postgres => {
                if was_away(it, at, TIME_TO_LIVE / 3) && self.broker_changed(it, at) {
                    return Some("it was stopped, and comes back too late");
                }
                if self.broker_was_away(it, at, TIME_TO_LIVE / 3 * SECOND) {
                    return Some("there was no broker for a while");
                }
                if self.was_known_to_nobody(it, at) {
                    return Some("its broker and the store have ended together");
                }
            }
        }
        None
    }

    /// Whether the store forgot everything while the worker's broker was dead, or its next one did not know what stood in
    /// the store.
    fn was_known_to_nobody(&self, it: &Instance, at: u64) -> bool {
        let moments = |what: Trouble| {
            let here = self.troubles_of(it).filter(move |(trouble, _)| *trouble == what);
            here.map(|(_, during)| during.from)
        };
        moments(Trouble::Forgotten).filter(|forgotten| *forgotten <= at).any(|forgotten| {
            moments(Trouble::BrokerKilled)
                .any(|killed| killed.abs_diff(forgotten) < TIME_TO_LIVE * SECOND)
        })
    }

    /// Why this worker may be told that it cannot have what it asks for.
    pub(crate) fn may_fail(&self, instance: u64, at: u64) -> Option<&'static str> {
        let it = self.history.instances.get(&instance)?;
        let full = |(trouble, _, during): &(Trouble, Option<usize>, Interval)| {
            matches!(trouble, Trouble::DiskFull | Trouble::FilesRemoved)
                && during.within(it.born.saturating_sub(SECOND), at) > 0
        };
        if self.history.troubles.iter().any(full) {
            return Some("the disk was full, or its files were removed");
        }
        let is_full = |(trouble, _, during): &(Trouble, Option<usize>, Interval)| {
            *trouble == Trouble::EtcdFull && during.within(it.born.saturating_sub(SECOND), at) > 0
        };
        if self.history.troubles.iter().any(is_full) {
            return Some("etcd was full");
        }
        // Such a `navlock run` has one limit of time for all that it waits for.
        let hurries = matches!(it.kind, Kind::Run { may_give_up: true, .. });
        let killed = |(trouble, during): (Trouble, &Interval)| {
            let since = it.born.saturating_sub(SECOND);
            trouble == Trouble::BrokerKilled && during.from > since && during.from <= at
        };
        if hurries && self.troubles_of(it).any(killed) {
            return Some("it would not wait for another broker");
        }
        let is_stopped = |(trouble, during): (Trouble, &Interval)| {
            trouble == Trouble::BrokerStopped && during.within(at - 1, at) > 0
        };
        if hurries && self.troubles_of(it).any(is_stopped) {
            return Some("its broker was stopped when its time was over");
        }
        if self.broker_was_away(it, at, if hurries { SECOND } else { 5 * SECOND }) {
            return Some("there was no broker for a while");
        }
        if was_away(it, at, 5) {
            return Some("it was stopped for a while");
        }
        // The worker may lose a lock before it hears of the grant, or while it has only one of two.
        self.may_lose(instance, None, at)
    }

    /// Whether the next broker may have given up waiting for this worker, which then has lost what it held.
    /// The next broker knows what stands in a map without waiting.
    fn was_given_up(&self, it: &Instance, at: u64) -> bool {
        was_away(it, at, 7) && self.broker_died(it, at) && !self.stood_in_its_map(it, at)
    }

    /// Whether all that the worker had when it was stopped stood in its map, so that each broker since knows
    /// it. After a client has come to a broker, its map has what it is granted from then on, not what it has
    /// claimed.
    fn stood_in_its_map(&self, it: &Instance, at: u64) -> bool {
        if !self.delegates || !matches!(it.kind, Kind::Client | Kind::Owner { delegates: true }) {
            return false;
        }
        let since = at.saturating_sub(30 * SECOND);
        let mut stops = it.stops.iter().filter(|stop| stop.within(since, at) > SECOND);
        stops.all(|stop| {
            let before = stop.from.saturating_sub(4 * SECOND);
            let hinders = |(trouble, during): (Trouble, &Interval)| match trouble {
                Trouble::BrokerKilled => (before..=stop.from).contains(&during.from),
                Trouble::BrokerStopped => during.within(before, stop.from) > 0,
                _ => during.within(before, at) > 0,
            };
            it.born < before && !self.troubles_of(it).any(hinders)
        })
    }

    /// Whether the worker may have to ask anew, behind others who came later.
    pub(crate) fn lost_its_place(&self, instance: u64, at: u64) -> Option<&'static str> {
        let it = self.history.instances.get(&instance)?;
        (was_away(it, at, 7) && self.broker_died(it, at))
            .then_some("it was stopped, and comes back too late")
    }

    /// Whether another worker has stolen this name from it, or may have.
    fn was_stolen(&self, instance: u64, it: &Instance, name: &str, at: u64) -> bool {
        if name == STOLEN {
            return self.was_stolen_by_an_owner(it, at);
        }
        self.history.instances.iter().any(|(&thief, other)| {
            let Kind::Run { names: stolen, steals: true, .. } = &other.kind else { return false };
            let is_other = thief == instance || !stolen.iter().any(|stolen| stolen == name);
            if is_other || other.born > at {
                return false;
            }
            // The holder began before the thief had ended.
            let ended = other.ended.unwrap_or(u64::MAX);
            let held = |hold: &&Hold| hold.instance == instance && hold.name == name;
            let mut holds = self.history.holds.iter().filter(held);
            let is_before = holds.any(|hold| hold.from < ended) || it.born < ended;
            let began = self.history.holds.iter().find(|hold| hold.instance == thief);
            is_before && began.is_none_or(|began| !self.has_had_time(it, began.from, at))
        })
    }

    /// Whether an owner has stolen lately. The robbed holder soon ends, unless the holder, the thief or the
    /// machine is hindered.
    fn was_stolen_by_an_owner(&self, it: &Instance, at: u64) -> bool {
        self.history.steals.iter().any(|(since, thief, _)| {
            let thief = self.history.instances.get(thief);
            let hindered = |it: &Instance| it.stops.iter().any(|stop| stop.within(*since, at) > 0);
            let is_hindered = hindered(it)
                || thief.is_some_and(hindered)
                || self.troubles_of(it).any(|(_, during)| during.within(*since, at) > 0);
            *since <= at && (at < since + 4 * SECOND || is_hindered)
        })
    }

    /// Whether the worker's files were removed while it held, and the broker was killed before they could be
    /// made anew. To make them takes broker, client and room on the disk.
    fn was_forgotten(&self, instance: u64, it: &Instance, name: &str, at: u64) -> bool {
        // A lock of a command also belongs to its `navlock run`, until that has ended too.
        let has_navlock = |removed: u64| {
            matches!(it.kind, Kind::Run { .. }) && it.ended.is_none_or(|ended| ended > removed)
        };
        let holds = || {
            let is_its = |hold: &&Hold| hold.instance == instance && hold.name == name;
            self.history.holds.iter().filter(is_its)
        };
        let held_at = |removed: u64| {
            let is_before = |hold: &Hold| hold.from < removed + SECOND;
            holds().any(|hold| {
                is_before(hold) && (hold.to.is_none_or(|to| to > removed) || has_navlock(removed))
            }) || it.born < removed + SECOND && (it.command.is_none() || !holds().any(is_before))
        };
        // A broker that takes over waits for stopped clients, and does not know them before they come back.
        // It knows the locks that were left to commands as soon as it begins, but its beginning may be
        // hindered.
        let is_awaited = |killed: u64, removed: u64| {
            let is_stopped = it.stops.iter().any(|stop| {
                stop.from < killed + SECOND && stop.to.is_none_or(|to| to + SECOND > removed)
            });
            let begins_late = || {
                self.troubles_of(it).any(|(trouble, during)| {
                    let hinders = matches!(trouble, Trouble::BrokerStopped | Trouble::DiskFull);
                    hinders && during.within(killed, removed) > 0
                })
            };
            is_stopped || it.is_orphaned(removed) && killed + RECOVERY > removed && begins_late()
        };
        let died_since = |removed: u64| {
            self.troubles_of(it).any(|(trouble, during)| {
                let is_it = trouble == Trouble::BrokerKilled && during.from <= at;
                is_it && (during.from + SECOND > removed || is_awaited(during.from, removed))
            })
        };
        self.troubles_of(it).any(|(trouble, during)| {
            let removed = during.from;
            trouble == Trouble::FilesRemoved
                && removed <= at
                && held_at(removed)
                && died_since(removed)
                && (it.killed.is_some_and(|killed| killed < removed + SECOND)
                    || self.could_not_mend(it, removed))
        })
    }

    /// Whether one of those who make files anew was away in the second after this moment.
    fn could_not_mend(&self, it: &Instance, removed: u64) -> bool {
        let soon = removed + SECOND;
        let was_away = self.troubles_of(it).any(|(trouble, during)| match trouble {
            Trouble::BrokerStopped | Trouble::DiskFull => during.within(removed, soon) > 0,
            Trouble::BrokerKilled => during.from + SECOND > removed && during.from < soon,
            _ => false,
        });
        was_away || it.stops.iter().any(|stop| stop.within(removed, soon) > 0)
    }

    /// Whether the holder was told at `since`, and has had enough time to end.
    fn has_had_time(&self, it: &Instance, since: u64, at: u64) -> bool {
        let stopped = |stops: &[Interval]| stops.iter().any(|stop| stop.within(since, at) > 0);
        let is_hindered = it.is_orphaned(at)
            || stopped(&it.stops)
            || stopped(&it.command_stops)
            || self.troubles_of(it).any(|(_, during)| during.within(since, at) > 0);
        // This is somewhat longer than a command may take to end.
        at > since + 8 * SECOND && !is_hindered
    }

    fn troubles_of<'a>(
        &'a self,
        it: &'a Instance,
    ) -> impl Iterator<Item = (Trouble, &'a Interval)> {
        let troubles = self.history.troubles.iter();
        let here =
            troubles.filter(|(_, machine, _)| machine.is_none_or(|machine| machine == it.machine));
        here.map(|(trouble, _, during)| (*trouble, during))
    }

    /// Whether the worker's lease may have been without a broker. A client that is stopped loses nothing as
    /// long as its broker goes on.
    fn broker_changed(&self, it: &Instance, at: u64) -> bool {
        self.broker_died(it, at) || self.broker_was_away(it, at, SECOND)
    }

    fn broker_died(&self, it: &Instance, at: u64) -> bool {
        let since = at.saturating_sub(40 * SECOND);
        self.troubles_of(it).any(|(trouble, during)| {
            matches!(trouble, Trouble::BrokerKilled | Trouble::FilesRemoved)
                && during.from > since
                && during.from <= at
        })
    }

    /// Whether the worker's broker was not at work, or could not begin, for so long.
    fn broker_was_away(&self, it: &Instance, at: u64, time: u64) -> bool {
        let since = at.saturating_sub(30 * SECOND);
        let away = self.troubles_of(it).filter(|(trouble, _)| match trouble {
            Trouble::BrokerStopped | Trouble::DiskFull | Trouble::FilesRemoved => true,
            Trouble::Cut => self.reach != Reach::Broker,
            Trouble::BrokerKilled | Trouble::Forgotten | Trouble::Member | Trouble::EtcdFull => {
                false
            }
        });
        let away: u64 = away.map(|(_, during)| during.within(since, at)).sum();
        away >= time
    }
}

/// Whether the worker was stopped for so long within the last thirty seconds.
fn was_away(it: &Instance, at: u64, seconds: u64) -> bool {
    let since = at.saturating_sub(30 * SECOND);
    let stopped: u64 = it.stops.iter().map(|stop| stop.within(since, at)).sum();
    stopped >= seconds * SECOND
}
