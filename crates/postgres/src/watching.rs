//! The watches of names: what has happened in the places that are watched is asked for when somebody says that
//! something has, and now and then.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use navlock_machines::{
    call_failure::Failure,
    keys::BucketKeys,
    lease::pause,
    load::about,
    watched::{Event, Order, Watched, read},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    LOGS,
    listening::{Note, listen},
    messages::{Change, Heard, Stamp, Told, quoted, text},
    postgres::{Own, Postgres, lock},
};

/// How often news are asked for at least, while nobody would notify us and something waits.
const UNHEARD: Duration = Duration::from_millis(10);
const LONGEST_UNHEARD: Duration = Duration::from_millis(200);

/// How often it is said anew what is watched: who has not said it for an hour is forgotten.
const SAID: Duration = Duration::from_secs(600);

/// The number of the watch of our mailbox. Nobody is told of it.
const MAILBOX: u64 = 0;

/// A watch that was ordered.
struct Wanted {
    keys: BucketKeys,
    prefix: Vec<u8>,
    place: String,
    /// Everything up to this revision was told. `None` if the watch has still to begin.
    told: Option<i64>,
}

/// All watches that are wanted.
struct Watching<'a, T> {
    store: &'a Postgres,
    wanted: BTreeMap<u64, Wanted>,
    /// How many watches there are of each place of which we are to be notified.
    places: HashMap<String, usize>,
    /// The places that were added or removed since this was told.
    added: HashSet<String>,
    removed: HashSet<String>,
    /// The places in which something may have happened.
    dirty: HashSet<String>,
    /// The era in which the places were told, and when they were last told.
    era: Option<i64>,
    said: Instant,
    /// Whether somebody notifies us.
    is_heard: bool,
    tell: T,
}

impl Postgres {
    /// See [`KeyStore::watch`](navlock_machines::key_store::KeyStore::watch).
    pub(crate) async fn watch_all(
        &self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        tell: impl Fn(u64, Watched),
    ) {
        let (own, mut changes) = mpsc::unbounded_channel();
        *lock(&self.0.own) = Some(own);
        let (notified, mut notes) = mpsc::unbounded_channel();
        let listening = tokio::spawn(listen(self.clone(), notified));
        let mut watching = Watching {
            store: self,
            wanted: BTreeMap::new(),
            places: HashMap::new(),
            added: HashSet::new(),
            removed: HashSet::new(),
            dirty: HashSet::new(),
            era: None,
            said: Instant::now(),
            is_heard: false,
            tell,
        };
        let often = pause(self.0.options.keeper.times.time_to_live);
        // The pause while nobody notifies us, and when all is next asked for, whatever is asked for meanwhile.
        let (mut quiet, mut due) = (UNHEARD, Instant::now() + often);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => watching.on_order(order),
                    None => break,
                },
                Some(news) = changes.recv() => {
                    watching.on_own(news);
                    quiet = UNHEARD;
                }
                Some(note) = notes.recv() => watching.on_note(note),
                () = sleep_until(due), if !watching.wanted.is_empty() => {
                    watching.all_are_dirty();
                    if watching.said.elapsed() > SAID {
                        watching.added = watching.places.keys().cloned().collect();
                    }
                    quiet = (2 * quiet).min(LONGEST_UNHEARD);
                    due = Instant::now() + often;
                }
            }
            // What comes at once is asked for at once.
            while let Ok(order) = orders.try_recv() {
                watching.on_order(order);
            }
            while let Ok(news) = changes.try_recv() {
                watching.on_own(news);
            }
            while let Ok(note) = notes.try_recv() {
                watching.on_note(note);
            }
            if let Err(failure) = watching.catch_up().await {
                tracing::debug!(target: LOGS, ?failure, "names could not be watched yet");
                due = Instant::now() + about(Duration::from_millis(100));
            } else if !watching.is_heard {
                due = due.min(Instant::now() + quiet);
            }
        }
        listening.abort();
    }
}

impl<T: Fn(u64, Watched)> Watching<'_, T> {
    fn on_order(&mut self, order: Order) {
        match order {
            Order::Watch { watch, keys, prefix, from } => {
                let place = place_of(&prefix);
                let told = from.map(|from| from - 1);
                let count = self.places.entry(place.clone()).or_default();
                *count += 1;
                if *count == 1 && !self.removed.remove(&place) {
                    self.added.insert(place.clone());
                }
                self.dirty.insert(place.clone());
                self.wanted.insert(watch, Wanted { keys, prefix, place, told });
            }
            Order::Unwatch(watch) => {
                let Some(Wanted { place, .. }) = self.wanted.remove(&watch) else { return };
                let Some(count) = self.places.get_mut(&place) else { return };
                *count -= 1;
                if *count == 0 {
                    self.places.remove(&place);
                    if !self.added.remove(&place) {
                        self.removed.insert(place);
                    }
                }
            }
        }
    }

    fn on_note(&mut self, note: Note) {
        match note {
            Note::Heard(place) => drop(self.dirty.insert(place)),
            Note::Listening(so) => {
                self.is_heard = so;
                self.all_are_dirty();
            }
        }
    }

    fn all_are_dirty(&mut self) {
        self.dirty.extend(self.places.keys().cloned());
    }

    /// Tells what was done from here, if everything before it was told.
    fn on_own(&mut self, own: Own) {
        let Change { place, before, keys } = match own {
            Own::Changed(change) => change,
            Own::Mailbox(place) if self.wanted.contains_key(&MAILBOX) || place.is_empty() => return,
            Own::Mailbox(place) => {
                let keys = BucketKeys::new("", "");
                let prefix = place.into_bytes();
                return self.on_order(Order::Watch { watch: MAILBOX, keys, prefix, from: None });
            }
        };
        if !self.places.contains_key(&place) {
            return;
        }
        let watches = self.wanted.values().filter(|wanted| wanted.place == place);
        if watches.into_iter().all(|wanted| before.is_some() && wanted.told >= before) {
            self.tell(&place, &keys);
        } else {
            self.dirty.insert(place);
        }
    }

    /// Tells what has happened in a place.
    fn tell(&mut self, place: &str, told: &[Told]) {
        let Some(last) = told.last().map(|told| told.written) else { return };
        let keys: Vec<_> =
            told.iter().filter_map(|told| Some((told.key_value()?, told.is_put()))).collect();
        for (watch, wanted) in self.wanted.iter_mut().filter(|(_, wanted)| wanted.place == place) {
            let Some(known) = wanted.told else { continue };
            let new = keys
                .iter()
                .filter(|(kv, _)| kv.written > known && kv.key.starts_with(&wanted.prefix));
            let events = new.filter_map(|(kv, is_put)| {
                let event = read(&wanted.keys, kv)?;
                Some(if *is_put { event } else { Event { put: None, ..event } })
            });
            let events: Vec<_> = events.collect();
            if !events.is_empty() {
                (self.tell)(*watch, Watched::Events(events));
            }
            wanted.told = Some(known.max(last));
        }
    }

    /// Says what is watched, if that has changed, and asks for what has happened.
    async fn catch_up(&mut self) -> Result<(), Failure> {
        while !self.added.is_empty() || !self.removed.is_empty() || !self.dirty.is_empty() {
            if !self.added.is_empty() || !self.removed.is_empty() {
                self.say_places().await?;
            }
            if !self.dirty.is_empty() {
                self.ask().await?;
            }
        }
        Ok(())
    }

    async fn say_places(&mut self) -> Result<(), Failure> {
        let array = |places: &HashSet<String>| {
            let places: Vec<_> = places.iter().map(|place| quoted(place)).collect();
            format!("array[{}]::text[]", places.join(","))
        };
        let (added, removed) = (array(&self.added), array(&self.removed));
        let call = format!("watch({}, {added}, {removed})", self.store.0.listener);
        let stamp: Stamp = self.store.call(&call).await?;
        self.added.clear();
        self.removed.clear();
        self.said = Instant::now();
        if self.is_new_era(stamp.era) {
            return Ok(());
        }
        for (watch, wanted) in &mut self.wanted {
            if wanted.told.is_none() {
                wanted.told = Some(stamp.revision);
                (self.tell)(*watch, Watched::Up);
            }
        }
        Ok(())
    }

    /// Whether the memory was lost since the places were told. If so, they are told again.
    fn is_new_era(&mut self, era: i64) -> bool {
        if self.era.replace(era).is_none_or(|before| before == era) {
            return false;
        }
        self.added = self.places.keys().cloned().collect();
        self.removed.clear();
        self.wanted.values_mut().for_each(|wanted| wanted.told = None);
        true
    }

    async fn ask(&mut self) -> Result<(), Failure> {
        let mut asked = Vec::new();
        let dirty = std::mem::take(&mut self.dirty);
        for place in &dirty {
            let told = self.wanted.values().filter(|wanted| wanted.place == *place);
            if let Some(since) = told.filter_map(|wanted| wanted.told).min() {
                asked.push((place.clone(), since));
            }
        }
        // A watch of a place that was told before begins now.
        let is_new = |wanted: &Wanted| wanted.told.is_none() && !self.added.contains(&wanted.place);
        let is_any_new = self.wanted.values().any(is_new);
        if asked.is_empty() && !is_any_new {
            return Ok(());
        }
        let places: Vec<_> = asked.iter().map(|(place, _)| quoted(place)).collect();
        let since: Vec<_> = asked.iter().map(|(_, since)| since.to_string()).collect();
        let call = format!(
            "news(array[{}]::text[], array[{}]::bigint[])",
            places.join(","),
            since.join(",")
        );
        let _gate = self.store.0.gate.read().await;
        let heard: Result<Heard, Failure> = self.store.call(&call).await;
        let heard = match heard {
            Ok(heard) => heard,
            Err(failure) => {
                self.dirty.extend(dirty);
                return Err(failure);
            }
        };
        if self.is_new_era(heard.stamp.era) {
            return Ok(());
        }
        for (place, told) in &heard.news {
            self.store.take_in(told);
            self.tell(place, told);
        }
        let asked: HashSet<_> = asked.into_iter().map(|(place, _)| place).collect();
        for (watch, wanted) in &mut self.wanted {
            if self.added.contains(&wanted.place) {
                continue;
            }
            match &mut wanted.told {
                // What has happened to it is forgotten.
                Some(told)
                    if asked.contains(&wanted.place)
                        && *told + 1 < heard.kept
                        && *told < heard.stamp.revision =>
                {
                    *told = heard.stamp.revision;
                    (self.tell)(*watch, Watched::Up);
                }
                Some(told) if asked.contains(&wanted.place) => {
                    *told = (*told).max(heard.stamp.revision);
                }
                Some(_) => {}
                told => {
                    *told = Some(heard.stamp.revision);
                    (self.tell)(*watch, Watched::Up);
                }
            }
        }
        Ok(())
    }
}

/// The name that a prefix is of: see `place_of` in the schema.
fn place_of(prefix: &[u8]) -> String {
    let text = text(prefix).unwrap_or_default();
    let parts = if text.split('/').nth(2) == Some("@mailbox") { 4 } else { 5 };
    text.split_inclusive('/').take(parts).collect()
}
