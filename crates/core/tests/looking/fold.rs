//! The state that results from all events. Every event is checked: it must be possible in the state
//! before it.

use std::collections::{BTreeMap, HashMap};

use navlock_core::{
    ClientId, LockManagerSnapshot, Mode,
    look::{Change, Entry, Event, LockId, LockName, Overview},
};

pub(crate) fn name(bucket: &str, name: &str) -> LockName {
    LockName::new(bucket, name.try_into().unwrap())
}

/// Who holds each name and who waits for it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fold {
    pub(crate) queues: BTreeMap<LockName, (Vec<Entry>, Vec<Entry>)>,
    /// The bucket of each agent.
    agents: HashMap<ClientId, String>,
}

/// What `query()` reports about one bucket, in the form of this file.
pub(crate) type Said = BTreeMap<LockName, (Vec<(ClientId, Mode)>, Vec<(ClientId, Mode)>)>;

pub(crate) fn said(bucket: &str, snapshot: &LockManagerSnapshot) -> Said {
    let mut said = Said::new();
    for held in &snapshot.held {
        let name = LockName::new(bucket, held.name.clone());
        said.entry(name).or_default().0.push((held.client_id, held.mode));
    }
    for pending in &snapshot.pending {
        let name = LockName::new(bucket, pending.name.clone());
        said.entry(name).or_default().1.push((pending.client_id, pending.mode));
    }
    said
}

fn admits(held: &[Entry], mode: Mode) -> bool {
    held.is_empty() || mode == Mode::Shared && held.iter().all(|entry| entry.mode == Mode::Shared)
}

fn take(entries: &mut Vec<Entry>, id: LockId) -> Option<Entry> {
    let at = entries.iter().position(|entry| entry.id == id)?;
    Some(entries.remove(at))
}

impl Fold {
    /// The state of a picture. This asserts that no front request of a queue could be granted.
    pub(crate) fn of_picture(overview: &Overview) -> Self {
        let fold = Self::of(overview);
        for (name, (held, pending)) in &fold.queues {
            let is_processed = pending.first().is_none_or(|front| !admits(held, front.mode));
            assert!(is_processed, "{name:?} in {fold:#?}");
        }
        fold
    }

    pub(crate) fn of(overview: &Overview) -> Self {
        let queues = overview.queues.iter();
        let queues = queues.map(|(name, queue)| {
            assert!(queue.owned.is_empty() && !queue.is_empty());
            (name.clone(), (queue.held.clone(), queue.pending.clone()))
        });
        let agents = overview.agents.iter().map(|(id, agent)| (*id, agent.bucket.to_string()));
        let fold = Self { queues: queues.collect(), agents: agents.collect() };
        for (name, (held, _)) in &fold.queues {
            assert!(held.len() <= 1 || admits(held, Mode::Shared), "{name:?} in {fold:#?}");
        }
        fold
    }

    /// Applies an event, and asserts that it was possible.
    pub(crate) fn apply(&mut self, Event { change, .. }: &Event) {
        let possible = self.try_apply(change);
        assert!(possible.is_some(), "cannot have happened: {change:#?}\nin {self:#?}");
        if let Some(name) = change.name() {
            if self
                .queues
                .get(name)
                .is_some_and(|(held, pending)| held.is_empty() && pending.is_empty())
            {
                self.queues.remove(name);
            }
        }
    }

    fn try_apply(&mut self, change: &Change) -> Option<()> {
        let has_anything = |queues: &BTreeMap<_, (Vec<Entry>, Vec<Entry>)>, agent| {
            let mut all = queues.values().flat_map(|(held, pending)| held.iter().chain(pending));
            all.any(|entry| entry.id.client_id == agent)
        };
        if let Change::Requested { name, entry } | Change::Granted { name, entry } = change {
            // The agent must exist, and be in the bucket of the name.
            (self.agents.get(&entry.id.client_id)? == &*name.bucket).then_some(())?;
        }
        match change {
            Change::AgentCame { agent, details } => {
                self.agents.insert(*agent, details.bucket.to_string());
            }
            Change::AgentWent { agent } => {
                self.agents.remove(agent)?;
                (!has_anything(&self.queues, *agent)).then_some(())?;
            }
            Change::Requested { name, entry } => {
                let (held, pending) = self.queues.entry(name.clone()).or_default();
                (entry.token.is_none() && !held.iter().any(|it| it.id == entry.id)).then_some(())?;
                if let Some(known) = pending.iter_mut().find(|it| it.id == entry.id) {
                    // The event says more about a known request.
                    let is_more =
                        known.inside.len() < entry.inside.len() || known.patience < entry.patience;
                    is_more.then_some(())?;
                    *known = entry.clone();
                } else {
                    (!pending.is_empty() || !admits(held, entry.mode)).then_some(())?;
                    pending.push(entry.clone());
                }
            }
            Change::Granted { name, entry } => {
                let (held, pending) = self.queues.entry(name.clone()).or_default();
                (entry.token.is_some() && admits(held, entry.mode)).then_some(())?;
                (!held.iter().any(|it| it.token >= entry.token)).then_some(())?;
                // The request is the first of its queue, or it is new: for an empty queue, or as a
                // thief.
                let is_first = pending.first().is_some_and(|front| front.id == entry.id);
                if is_first {
                    pending.remove(0);
                } else {
                    let is_new = !pending.iter().any(|it| it.id == entry.id);
                    (is_new && (pending.is_empty() || held.is_empty())).then_some(())?;
                }
                held.push(entry.clone());
            }
            Change::Released { name, id } | Change::Lost { name, id, .. } => {
                take(&mut self.queues.get_mut(name)?.0, *id)?;
            }
            Change::Aborted { name, id } => {
                take(&mut self.queues.get_mut(name)?.1, *id)?;
            }
            Change::Unavailable { .. } => {}
            _ => return None,
        }
        Some(())
    }

    /// What `query()` must report about this bucket.
    pub(crate) fn said(&self, bucket: &str) -> Said {
        let each = |entries: &[Entry]| -> Vec<_> {
            entries.iter().map(|entry| (entry.id.client_id, entry.mode)).collect()
        };
        let of_bucket = self.queues.iter().filter(|(name, _)| &*name.bucket == bucket);
        of_bucket
            .map(|(name, (held, pending))| (name.clone(), (each(held), each(pending))))
            .collect()
    }
}
