//! What etcd has recorded, read change by change, and judged without what holders say. No two hold a name
//! that they must not hold together. Waiting requests are granted in their order, and only a request that
//! steals passes them. Then each token that a holder had is looked for in the record.
//!
//! A key of a lock is `navlock/6/BUCKET/l/NAME/{h|q}/{x|s}/REQUEST`. Its create revision is the token's,
//! except for a lock that a machine has granted by itself, whose value has the token. The key
//! `navlock/6/BUCKET/l/NAME/h/x/o-MACHINE` says that a machine owns the name: the machine then grants by
//! itself, with tokens of that key's revision. Other keys are not read.

mod keys;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use navlock_etcd_client::{
    Client, Event, EventType, KeyValue, RangeRequest, WatchCreateRequest, prefix_end,
};
use tokio::time::timeout;

use self::keys::{Key, Name, One, Phase};
use crate::history::History;

/// The key that says up to where something was read.
pub(crate) const MARK: &str = "navlock-torture/mark";

/// The prefix of all keys that are read.
const ALL: &str = "navlock";

/// A member that sends nothing for so long may be stopped, so another one is asked.
const SILENT: Duration = Duration::from_secs(2);

/// What is known so far.
#[derive(Default)]
struct Known {
    names: BTreeMap<String, Name>,
    /// For each name, the modes of its grants by revision.
    grants: BTreeMap<String, BTreeMap<u64, bool>>,
    /// The revisions at which a machine came to own each name.
    owned: BTreeMap<String, BTreeSet<u64>>,
    /// The revision after the last one that was read.
    next: i64,
    /// The revisions that were compacted before they were read: from, and to.
    gaps: Vec<(i64, i64)>,
    /// The last mark.
    mark: u64,
    changes: u64,
    granted: u64,
    from_queue: u64,
    thefts: u64,
    /// How often a machine came to own a name, and how many locks machines have said that they granted.
    became: u64,
    told: u64,
    /// How often a machine came to own a name for one run of requests only, and how many requests those runs
    /// had.
    runs: u64,
    in_runs: u64,
    wrong: Vec<String>,
}

/// The record, and the members from which it is read.
pub(crate) struct Record {
    endpoints: Vec<String>,
    known: Arc<Mutex<Known>>,
    marks: u64,
}

impl Record {
    pub(crate) fn new(endpoints: impl Iterator<Item = String>) -> Self {
        Self { endpoints: endpoints.collect(), known: Arc::default(), marks: 0 }
    }

    /// Begins to read, on a thread that ends with the process.
    pub(crate) fn begin(&self) {
        let (endpoints, known) = (self.endpoints.clone(), Arc::clone(&self.known));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("there are descriptors");
            runtime.block_on(async {
                for endpoint in endpoints.iter().cycle() {
                    // Whatever goes wrong, the next member is asked.
                    let _ = read(endpoint, &known).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        });
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// What was found wrong since the last call.
    pub(crate) fn wrong(&self) -> Vec<String> {
        mem::take(&mut self.known().wrong)
    }

    pub(crate) fn next_mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    pub(crate) fn has_read(&self, mark: u64) -> bool {
        self.known().mark >= mark
    }

    /// Checks that each token that a holder had belongs to a grant. Returns complaints about the others.
    pub(crate) fn compare(&self, history: &History) -> Vec<String> {
        let known = self.known();
        let mut wrong = Vec::new();
        for hold in &history.holds {
            let revision = revision(hold.token);
            let is_unread = known.gaps.iter().any(|(from, to)| {
                i64::try_from(revision).is_ok_and(|revision| (*from..=*to).contains(&revision))
            });
            let grants = known.grants.get(&hold.name);
            let mut is_granted = grants.is_some_and(|grants| grants.contains_key(&revision));
            if is_counted(hold.token) {
                is_granted =
                    known.owned.get(&hold.name).is_some_and(|owned| owned.contains(&revision));
            }
            if !is_unread && !is_granted && revision > 1 {
                wrong.push(format!("etcd has no grant of {} with this token: {hold:?}", hold.name));
            }
        }
        wrong
    }

    pub(crate) fn summary(&self) -> String {
        let known = self.known();
        let unread: i64 = known.gaps.iter().map(|(from, to)| to - from).sum();
        format!(
            "recorded by etcd: {} changes of {} names, {} grants, {} of them of who waited, {} thefts; {} times a name \
             became a machine's, which told of {} locks, and {} of these for runs of {} requests; {unread} revisions were compacted before they were read, {} times",
            known.changes,
            known.grants.len(),
            known.granted,
            known.from_queue,
            known.thefts,
            known.became,
            known.told,
            known.runs,
            known.in_runs,
            known.gaps.len()
        )
    }
}

/// How many low bits of a token are counted by the machine that granted it.
const COUNTED: u32 = 20;

/// The revision of the grant with this token. If a machine granted it by itself, the revision since which it
/// does.
fn revision(token: u64) -> u64 {
    token >> COUNTED
}

/// Whether a machine has granted the lock of this token by itself.
fn is_counted(token: u64) -> bool {
    token & ((1 << COUNTED) - 1) != 0
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    // A panic does no harm: the data are consistent after every statement.
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads what a member sends, until it sends nothing more.
async fn read(endpoint: &str, known: &Mutex<Known>) -> Result<(), navlock_etcd_client::Error> {
    let connected = async {
        let mut client = Client::connect([endpoint], None).await?;
        if lock(known).next == 0 {
            list(&mut client, known).await?;
        }
        // Begin one revision earlier than what is wanted. A watch that begins at the very revision to which
        // etcd has been compacted misses what was deleted by that revision (etcd-io/etcd#18089). What was
        // read is not read twice.
        let from = lock(known).next - 1;
        let watch = WatchCreateRequest { start: from, ..WatchCreateRequest::prefix(ALL) };
        let stream = client.watch(watch).await?;
        Ok::<_, navlock_etcd_client::Error>((client, stream))
    };
    let Ok(connected) = timeout(SILENT, connected).await else { return Ok(()) };
    let (mut client, mut stream) = connected?;
    while let Ok(told) = timeout(SILENT, stream.message()).await {
        let Some(told) = told? else { return Ok(()) };
        if told.canceled {
            // The history was compacted, or this is no member any more: begin anew with the keys that it has.
            let listed = timeout(SILENT, list(&mut client, known)).await;
            return listed.unwrap_or(Ok(()));
        }
        lock(known).take_in(&told.events);
    }
    Ok(())
}

/// Begins anew with the keys that etcd has.
async fn list(client: &mut Client, known: &Mutex<Known>) -> Result<(), navlock_etcd_client::Error> {
    let answer = client.get(RangeRequest::range(ALL, prefix_end(ALL.as_bytes()))).await?;
    let revision = answer.header.unwrap_or_default().revision;
    let mut known = lock(known);
    if revision < known.next {
        return Ok(());
    }
    if known.next > 0 {
        let gap = (known.next, revision);
        known.gaps.push(gap);
    }
    known.names.clear();
    for kv in answer.kvs {
        known.note_mark(&kv);
        let Some(key) = Key::of(&kv.key) else { continue };
        let one = key.one(&kv);
        let name = known.names.entry(key.name.clone()).or_default();
        name.all(key.phase).insert(key.request, one);
        known.note(key.name, key.phase, one);
    }
    known.next = revision + 1;
    Ok(())
}

impl Known {
    fn note(&mut self, name: String, phase: Phase, one: One) {
        let made = u64::try_from(one.made).unwrap_or(0);
        match phase {
            Phase::Held if one.told.is_none() => {
                self.grants.entry(name).or_default().insert(made, one.is_exclusive);
            }
            Phase::Owned => _ = self.owned.entry(name).or_default().insert(made),
            _ => {}
        }
    }

    fn note_mark(&mut self, kv: &KeyValue) {
        if kv.key == MARK.as_bytes() {
            let mark = std::str::from_utf8(&kv.value).ok().and_then(|text| text.parse().ok());
            self.mark = self.mark.max(mark.unwrap_or(0));
        }
    }

    /// Takes in changes: whole revisions, in their order.
    fn take_in(&mut self, events: &[Event]) {
        let revision = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.written);
        for same in events.chunk_by(|one, other| revision(one) == revision(other)) {
            let at = revision(&same[0]);
            // Another member may have sent this revision before.
            if at >= self.next {
                self.next = at + 1;
                self.change(at, same);
            }
        }
    }

    /// Takes in one revision.
    fn change(&mut self, at: i64, events: &[Event]) {
        let mut changed: BTreeMap<String, Name> = BTreeMap::new();
        for event in events {
            let Some(kv) = &event.kv else { continue };
            self.note_mark(kv);
            let Some(key) = Key::of(&kv.key) else { continue };
            self.changes += 1;
            let name = self.names.entry(key.name.clone()).or_default();
            changed.entry(key.name.clone()).or_insert_with(|| name.clone());
            let all = name.all(key.phase);
            match event.event_type() {
                EventType::Put => {
                    let one = key.one(kv);
                    self.became += u64::from(key.phase == Phase::Owned && one.made == at);
                    _ = all.insert(key.request, one);
                    if key.phase == Phase::Owned {
                        self.note(key.name, key.phase, one);
                    }
                }
                EventType::Delete => _ = all.remove(&key.request),
            }
        }
        for (of, before) in changed {
            let Some(name) = self.names.get(&of).cloned() else { continue };
            self.judge(at, &of, &before, &name);
            if name.held.is_empty() && name.queue.is_empty() && name.owners.is_empty() {
                self.names.remove(&of);
            }
        }
    }

    /// Judges the change of a name in one revision.
    fn judge(&mut self, at: i64, of: &str, before: &Name, after: &Name) {
        if after.is_shared_wrongly() {
            self.wrong.push(format!(
                "etcd has two holders of {of} at {at}: {:?}, {:?}",
                after.held, after.owners
            ));
        }
        for own in after.owners.values().filter(|own| own.is_run && own.made == at) {
            self.runs += 1;
            let is_left = |request: &String| after.queue.contains_key(request);
            let (rest, run): (Vec<_>, Vec<_>) =
                before.queue.iter().partition(|(request, _)| is_left(request));
            let last = run.iter().map(|(_, one)| one.asked).max();
            self.in_runs += run.len() as u64;
            if let Some(passed) = rest.iter().find(|(_, one)| Some(one.asked) < last) {
                self.wrong.push(format!(
                    "etcd has {of} owned since {at} for {run:?}, before {passed:?}: {own:?}"
                ));
            }
        }
        let is_robbed = before.held.keys().any(|request| !after.held.contains_key(request));
        let granted: Vec<_> = after.held.iter().filter(|(_, one)| one.made == at).collect();
        for (request, one) in granted {
            if let Some(token) = one.told {
                self.told += 1;
                let mut owners = before.owners.values();
                if !owners.any(|own| u64::try_from(own.made) == Ok(revision(token))) {
                    self.wrong.push(format!(
                        "etcd has {request} with the token {token} at {at}, and {of} was {:?}",
                        before.owners
                    ));
                }
                continue;
            }
            self.granted += 1;
            self.note(of.to_owned(), Phase::Held, *one);
            if let Some(One { asked, .. }) = before.queue.get(request) {
                self.from_queue += 1;
                let mut rest = after.queue.iter();
                if let Some(passed) = rest.find(|(_, other)| other.asked < *asked) {
                    self.wrong.push(format!(
                        "etcd has {request} granted {of} at {at}, asked for at {asked}, before {passed:?}"
                    ));
                }
            } else if after.queue.values().any(|other| other.asked < at) {
                // Requests of the same change come after this one. A thief takes a name from its holder, or
                // would.
                self.thefts += 1;
                if !one.is_exclusive {
                    self.wrong.push(format!(
                        "etcd has {request} granted {of} at {at} without waiting, before {:?}; {}",
                        after.queue,
                        if is_robbed { "others lost it" } else { "nobody lost it" }
                    ));
                }
            }
        }
    }
}
