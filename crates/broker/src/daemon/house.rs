//! What all sessions of a daemon share: who is there.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    ffi::OsString,
    fmt,
    fs::File,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use navlock_core::{
    AgentInfo, ClientId, Error, Inspected, Inspection, LockInfo, Mode, Owned, ResourceName,
    UserAgent,
};
use navlock_wire::{ClientKey, Failure, FromDaemon, Status};
use tokio::{
    sync::Notify,
    time::{Duration, Instant},
};

use super::{
    Limits, Options,
    claims::{self, Claims},
    client::{Client, failure},
    delegations::{Delegations, Looks, Tally},
    leases::{Leases, TRIES},
    map::ClientMap,
    maps::{self, Maps},
    orphans::Orphan,
    process::Process,
    recall,
    recovery::{Believed, Recovery},
    surroundings,
};
use crate::{
    client_files::{self, ClientFiles, Found, Inherited},
    clock,
    descriptors::Counted,
    testament,
};

/// A client, for its session and for those who look at all clients.
///
/// Nobody who has one of these locked locks another, or the house.
pub(super) type SharedClient = Arc<Mutex<Client>>;

/// Locks a client.
pub(super) fn lock(client: &SharedClient) -> MutexGuard<'_, Client> {
    // A session that panicked has ended; what its client had is still to be ended too.
    client.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clients of a daemon.
pub(super) struct House {
    user_agent: UserAgent,
    limits: Limits,
    /// How far locks are seen, if that is further than this machine.
    reach: Option<String>,
    started: Instant,
    /// `None` for a daemon that nobody comes back to.
    files: Option<ClientFiles>,
    recovery: Recovery,
    /// The maps of those who were found.
    maps: Maps,
    /// Locks that stand in maps; `None` where there are none.
    delegations: Option<Arc<Delegations>>,
    /// Whether clients can own names.
    delegates: bool,
    rooms: Mutex<Rooms>,
    /// Somebody has gone.
    pub(super) gone: Notify,
    /// Somebody has asked the daemon to end.
    pub(super) stopped: Notify,
    /// Under what the daemon runs, as far as that does not change.
    details: Vec<(String, String)>,
    /// The daemon ends, and its clients go on with the next one.
    is_left: AtomicBool,
}

#[derive(Default)]
pub(super) struct Rooms {
    /// Those who are connected, with the keys of those who have said theirs.
    clients: HashMap<u64, (Option<ClientKey>, SharedClient)>,
    /// The heirs of clients that were killed.
    pub(super) orphans: HashMap<u64, Orphan>,
    next: u64,
}

/// A client's stay. Dropping it is the client's end, unless its locks were inherited.
pub(super) struct Stay {
    house: Arc<House>,
    room: u64,
    key: Option<ClientKey>,
    pub(super) client: SharedClient,
    is_given_up: bool,
}

impl House {
    pub(super) fn new(
        user_agent: UserAgent,
        options: &Options,
        files: Option<ClientFiles>,
        found: &Found,
        delegations: Option<Arc<Delegations>>,
    ) -> Self {
        let is_leased = user_agent.is_leased();
        Self {
            limits: options.limits,
            reach: options.reach.clone().or(is_leased.then(|| "other machines".to_owned())),
            user_agent,
            started: Instant::now(),
            recovery: Recovery::new(found),
            // What is leased may be others' by the time that it is taken again.
            delegations: delegations.filter(|_| !is_leased),
            delegates: options.delegate,
            maps: files.as_ref().map(|files| Maps::of(files, found)).unwrap_or_default(),
            files,
            rooms: Mutex::default(),
            gone: Notify::new(),
            stopped: Notify::new(),
            details: options.details.clone(),
            is_left: AtomicBool::new(false),
        }
    }

    pub(super) fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn user_agent(&self) -> &UserAgent {
        &self.user_agent
    }

    /// How far locks are seen, for people, if that is further than this machine.
    pub(super) fn reach(&self) -> Option<&str> {
        self.reach.as_deref()
    }

    pub(super) fn maps(&self) -> &Maps {
        &self.maps
    }

    pub(super) fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Where locks are that stand in maps.
    pub(super) fn delegations(&self) -> Option<&Arc<Delegations>> {
        self.delegations.as_ref()
    }

    pub(super) fn files(&self) -> Option<&ClientFiles> {
        self.files.as_ref()
    }

    /// A new client, or one that comes back to what it has left to others.
    pub(super) fn enter(
        self: &Arc<Self>,
        key: Option<ClientKey>,
        returning: bool,
        process: Option<Process>,
    ) -> Stay {
        let mut rooms = self.rooms();
        let orphan = key.and_then(|key| rooms.take_orphan(key));
        let client = orphan.map_or_else(|| self.new_client(), |orphan| Arc::clone(&orphan.client));
        lock(&client).begin(process, key.zip(self.files.clone()));
        let room = rooms.number();
        rooms.clients.insert(room, (key, Arc::clone(&client)));
        if let Some(key) = key.filter(|_| returning) {
            self.recovery.begin(key, room);
        }
        Stay { house: Arc::clone(self), room, key, client, is_given_up: false }
    }

    pub(super) fn new_client(&self) -> SharedClient {
        let delegations = self.delegations.clone();
        Arc::new(Mutex::new(Client::new(self.user_agent.clone(), self.limits, delegations)))
    }

    /// Takes over from the daemon before, whose clients were found to be these.
    pub(super) async fn recover(self: &Arc<Self>, found: Found, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.end_leases(found.dead, TRIES);
        // What is leased runs out while others are waited for, and who is dead does not come back.
        let is_leased = self.user_agent.is_leased();
        let is_urgent = |key: &ClientKey| is_leased && !found.living.contains(key);
        let urgent = found.bequeathers.iter().copied().filter(is_urgent).collect();
        let (mut claimants, mut orphans) = tokio::join!(
            // Leases say by themselves whose a lock is.
            self.recovery.wait_for_claims(self.files(), &self.maps, !is_leased, patience),
            self.inherit(urgent, &found.testaments, deadline + patience),
        );
        // Who is there speaks for itself. What it has left to others may be gone by now.
        let absent = self.recovery.absent();
        let left = self.inherit(absent.clone(), &found.testaments, deadline + patience).await;
        orphans.extend(left);
        self.end_leases(self.dead(absent), TRIES);
        for heirs in &mut orphans {
            let claims = mem::take(&mut heirs.claims);
            claimants.insert(heirs.key, (Arc::clone(&heirs.client), claims));
        }
        // Nor is it lost what they hold of whom we know it without them.
        let mut sleepers = Vec::new();
        for (sleeper, claims) in if is_leased { Vec::new() } else { self.sleepers() } {
            claimants.extend([maps::claimant(&sleeper, claims)]);
            sleepers.push(sleeper);
        }
        claims::settle(claimants.into_values().collect());
        self.keep_sleepers(sleepers);
        self.maps.forget();
        for Heirs { key, client, inherited, .. } in orphans {
            self.lodge(key, client, Some(inherited));
        }
        self.recovery.end();
    }

    /// What others have inherited from these, with what they claim.
    async fn inherit(
        &self,
        keys: Vec<ClientKey>,
        testaments: &HashMap<ClientKey, Counted<File>>,
        deadline: Instant,
    ) -> Vec<Heirs> {
        let mut heirs = Vec::new();
        for key in keys {
            let kept = testaments.get(&key).map(Counted::get);
            let Some(mut inherited) = self.inherited(key, kept, deadline).await else {
                self.forget_heirs(key);
                continue;
            };
            let client = self.new_client();
            // What cannot be read was not written by us, or where there was no room.
            let claims = inherited.replay(&mut lock(&client));
            if let Some(mut claims) = claims {
                self.recall(key, &client, &mut claims).await;
                heirs.push(Heirs { key, client, inherited, claims });
            } else {
                self.forget_heirs(key);
            }
        }
        heirs
    }

    /// Has no later daemon believe heirs whose locks others may be granted from here on.
    fn forget_heirs(&self, key: ClientKey) {
        if let Some(files) = self.files() {
            files.forget_heirs(key);
        }
    }

    /// Goes on with what the client of this key had through the daemon before, if the reach knows of
    /// it by itself. What stays among the claims is to be had anew.
    async fn recall(&self, key: ClientKey, client: &SharedClient, claims: &mut Claims) {
        if self.user_agent.is_leased() {
            // Who had it through us has lost it with its session.
            if self.recovery.is_first_return(key) {
                recall::recall(client, claims).await;
            }
            claims::believe(client, claims, |_| false);
        }
    }

    /// A client is there, with what it claims; returns once it may go on.
    pub(super) async fn admit(&self, stay: &Stay, mut claims: Claims) {
        claims::keep_claimed(&stay.client, &claims);
        // It may use them for others from here on.
        lock(&stay.client).leave_slots();
        let claimed = match stay.key {
            Some(key) => {
                // Now: what it had runs out while others are waited for.
                self.recall(key, &stay.client, &mut claims).await;
                self.believe(key, &stay.client, &mut claims);
                self.recovery.claim(key, stay.room, &stay.client, claims)
            }
            None => Err(claims),
        };
        match claimed {
            Ok(()) => {}
            // Not a client that had something, or one that comes too late.
            Err(claims) => claims::refuse(self, &stay.client, claims),
        }
        self.recovery.over().await;
    }

    /// Leaves of a client's claims what it can be believed to hold. What is leased was recalled.
    fn believe(&self, key: ClientKey, client: &SharedClient, claims: &mut Claims) {
        if self.user_agent.is_leased() {
            return;
        }
        match self.recovery.believed(key) {
            Believed::All => {}
            Believed::Inherited => {
                let inherited = self.files().and_then(|files| files.inherited(key).ok().flatten());
                let bytes = inherited.and_then(|mut inherited| inherited.claims().ok());
                let meant = bytes.and_then(|bytes| testament::meant(&bytes)).unwrap_or_default();
                claims::believe(client, claims, |id| meant.contains(&id));
            }
            Believed::Nothing => claims::believe(client, claims, |_| false),
        }
    }

    /// Ends a client that has gone. Its own file may be there still.
    fn forget(
        self: &Arc<Self>,
        room: u64,
        key: Option<ClientKey>,
        client: &SharedClient,
        leaves_file: bool,
    ) {
        let known = self.rooms().clients.remove(&room);
        drop(known);
        lock(client).end();
        self.gone.notify_one();
        let (Some(key), Some(files)) = (key, self.files().cloned()) else { return };
        let house = Arc::clone(self);
        // FAST: after who waits for its locks was told.
        tokio::spawn(async move {
            if leaves_file {
                _ = files.give_up(key);
            }
            house.forget_leases(key);
        });
    }

    /// Removes what clients have left behind whose end was not noticed. Whether that is to be looked
    /// at again.
    pub(super) fn sweep(&self) -> bool {
        let Some(files) = &self.files else { return false };
        // Another time, if it fails.
        let Ok(Found { mut dead, .. }) = files.find() else { return true };
        // Whose file was removed by somebody, or is being ended, is no affair of ours.
        let rooms = self.rooms();
        let clients = rooms.clients.values().filter_map(|(key, _)| *key);
        let here: HashSet<_> =
            clients.chain(rooms.orphans.values().map(|orphan| orphan.key)).collect();
        drop(rooms);
        dead.retain(|dead| !here.contains(&dead.client));
        let is_left = self.user_agent.is_leased() && !dead.is_empty();
        self.end_leases(dead, 1);
        is_left
    }

    /// Whether nobody is there.
    pub(super) fn is_empty(&self) -> bool {
        let rooms = self.rooms();
        rooms.clients.is_empty() && rooms.orphans.is_empty()
    }

    /// Has all clients see to their files, which somebody may have removed.
    pub(super) fn ask_to_register(&self) {
        for (_, client) in self.rooms().clients.values().cloned().collect::<Vec<_>>() {
            lock(&client).ask_to_register();
        }
    }

    /// Has those see to their files that are gone: if they are known, those of which something with one
    /// of these names was removed.
    pub(super) fn ask_whose_file_is_gone(&self, removed: Option<&[OsString]>) {
        let Some(files) = self.files() else { return };
        let removed: Option<HashSet<ClientKey>> = removed
            .map(|names| names.iter().filter_map(|name| client_files::client(name)).collect());
        let is_meant = |key: &ClientKey| removed.as_ref().is_none_or(|keys| keys.contains(key));
        let rooms = self.rooms();
        let clients = rooms.clients.values().filter_map(|(key, client)| Some(((*key)?, client)));
        let meant = clients.filter(|(key, _)| is_meant(key));
        let meant: Vec<_> = meant.map(|(key, client)| (key, Arc::clone(client))).collect();
        drop(rooms);
        for (_, client) in meant.iter().filter(|(key, _)| !files.has_own(*key)) {
            lock(client).ask_to_register();
        }
    }

    /// How many are there whose client was killed.
    pub(super) fn orphans(&self) -> usize {
        self.rooms().orphans.len()
    }

    /// Those who are there, and the heirs of those who were killed.
    fn everybody(&self) -> Vec<SharedClient> {
        let rooms = self.rooms();
        let orphans = rooms.orphans.values().map(|orphan| &orphan.client);
        let clients = rooms.clients.values().map(|(_, client)| client);
        clients.chain(orphans).cloned().collect()
    }

    /// How the daemon is.
    pub(super) fn status(&self) -> Status {
        let everybody = self.everybody();
        let counts = everybody.iter().map(|client| lock(client).count());
        let (held, pending) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let rooms = self.rooms();
        let sleepers = rooms.orphans.values().filter(|orphan| orphan.sleeps).count();
        Status {
            pid: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            age: milliseconds(self.started.elapsed()),
            clients: (rooms.clients.len() + sleepers) as u64,
            orphans: (rooms.orphans.len() - sleepers) as u64,
            held: held as u64,
            pending: pending as u64,
        }
    }

    /// Leaves all that clients have as it is, whatever becomes of their sessions from here on: where
    /// locks are kept elsewhere, to end them would be to release them.
    pub(super) fn leave_behind(&self) {
        self.is_left.store(true, SeqCst);
        self.everybody().into_iter().for_each(mem::forget);
    }

    /// Under what the daemon runs, in words for people.
    pub(super) fn details(&self) -> Vec<(String, String)> {
        let mut details = self.details.clone();
        details.extend(self.outage().map(|outage| ("outage".to_owned(), outage)));
        details.extend(self.owned_names());
        details.extend(surroundings::now());
        details
    }

    /// How owning names goes, for people; `None` where none are owned.
    fn owned_names(&self) -> Option<(String, String)> {
        let Tally { owned, taken, recalled } = self.delegations()?.tally();
        if !self.delegates {
            return Some(("owned names".to_owned(), "none, as the settings say".to_owned()));
        }
        let how = format!("{owned} (taken again {taken} times, recalled {recalled} times)");
        Some(("owned names".to_owned(), how))
    }

    /// For how long what keeps the locks has not answered, and how long they last, if they are about
    /// to be lost by that; in words for people.
    pub(super) fn outage(&self) -> Option<String> {
        let terms = self.everybody().into_iter().flat_map(|client| lock(&client).terms());
        // The one that ends first.
        let suspended = terms.filter_map(|term| term.suspended());
        let (silent, left) = suspended.min_by_key(|(_, left)| *left)?;
        let (silent, left) = (silent.as_secs(), left.as_secs());
        let reach = self.reach().unwrap_or("what keeps the locks");
        Some(format!("no answer for {silent} s; locks are lost in {left} s ({reach})"))
    }

    /// What is told to who asks for what cannot be found out.
    pub(super) fn failure(&self, error: &Error) -> Failure {
        match (failure(error), self.outage()) {
            (Failure::Other(why), Some(outage)) => Failure::Other(format!("{why}; {outage}")),
            (failure, _) => failure,
        }
    }

    /// Adds to an inspection what is known here and not where the locks are kept.
    pub(super) fn complete(
        &self,
        inspection: &mut Inspection,
        bucket: &str,
        name: Option<&ResourceName>,
        looks: Option<&Looks>,
    ) {
        let looks = looks.map(Looks::by_key).unwrap_or_default();
        let mut known: HashMap<Sort, VecDeque<Known>> = HashMap::new();
        for client in self.everybody() {
            for of in lock(&client).shown() {
                if **of.bucket != *bucket || name.is_some_and(|name| of.shown.name != name) {
                    continue;
                }
                // FAST: of a long queue only the holder may be asked for.
                if inspection.pending.is_empty() && of.shown.token.is_none() {
                    continue;
                }
                let sort = Sort {
                    held: of.shown.token.is_some(),
                    name: of.shown.name.clone(),
                    mode: of.shown.mode,
                    client_id: of.client_id,
                };
                let mut one = Known {
                    serial: of.id.serial(),
                    since: of.shown.since,
                    token: of.shown.token,
                    info: Arc::clone(of.info),
                };
                if let Some(delegation) = of.shown.delegation {
                    let Some(look) = looks.get(&delegation.key()) else { continue };
                    if look.is_lost() {
                        continue;
                    }
                    if !look.is_held() {
                        inspection.owned.push(one.owned(sort, delegation.taken(*look)));
                        continue;
                    }
                    if let Some((since, token)) = delegation.shown(*look) {
                        (one.since, one.token) = (since, Some(token));
                    }
                }
                known.entry(sort).or_default().push_back(one);
            }
        }
        inspection
            .owned
            .sort_by(|one, other| one.lock.name.as_bytes().cmp(other.lock.name.as_bytes()));
        // What one agent has of one sort is served in the order in which it was asked for.
        for sort in known.values_mut() {
            sort.make_contiguous().sort_by_key(|known| known.serial);
        }
        let held = inspection.held.iter_mut().map(|lock| (true, lock));
        let pending = inspection.pending.iter_mut().map(|request| (false, request));
        for (held, inspected) in held.chain(pending) {
            let Inspected { lock, agent, age, fencing_token, .. } = inspected;
            let (name, client_id) = (lock.name.clone(), lock.client_id);
            let sort = Sort { held, name, mode: lock.mode, client_id };
            if let Some(known) = known.get_mut(&sort).and_then(VecDeque::pop_front) {
                *agent = Some(known.info);
                *age = Some(clock::since(known.since));
                *fencing_token = known.token;
            }
        }
    }
}

/// Those who have inherited locks of a client that is not there.
struct Heirs {
    key: ClientKey,
    client: SharedClient,
    inherited: Inherited,
    claims: Claims,
}

/// What locks and requests are alike in that cannot be told apart in a snapshot.
#[derive(PartialEq, Eq, Hash)]
struct Sort {
    held: bool,
    name: ResourceName,
    mode: Mode,
    client_id: ClientId,
}

struct Known {
    serial: u64,
    since: navlock_wire::Moment,
    token: Option<navlock_engine::FencingToken>,
    info: Arc<AgentInfo>,
}

impl Known {
    /// The same of what nobody holds, and its client has taken so often.
    fn owned(self, sort: Sort, taken: u64) -> Owned {
        let mut owned = Owned::new(LockInfo::new(sort.name, sort.mode, sort.client_id), taken);
        (owned.agent, owned.age) = (Some(self.info), Some(clock::since(self.since)));
        owned
    }
}

impl Rooms {
    /// A number that no room has.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn take_orphan(&mut self, key: ClientKey) -> Option<Orphan> {
        let room = *self.orphans.iter().find(|(_, orphan)| orphan.key == key)?.0;
        self.orphans.remove(&room)
    }
}

impl Stay {
    /// Maps the client's own file, in which it says to have written this number. What is said to that, if
    /// it is of use.
    pub(super) fn map(&self, nonce: u64) -> Option<FromDaemon> {
        let delegations = self.house.delegations().filter(|_| self.house.delegates)?;
        let key = self.key?;
        // A connection of its that has ended, which we do not know yet, may have locks in it.
        let rooms = self.house.rooms();
        let is_another = |(room, (other, _)): (&u64, &(Option<ClientKey>, _))| {
            *room != self.room && *other == Some(key)
        };
        let is_alone = !rooms.clients.iter().any(is_another);
        drop(rooms);
        // Without it, all is as if there were none.
        let map = ClientMap::of(self.house.files()?, key).ok()??;
        if !is_alone || nonce == 0 || map.nonce() != nonce {
            return None;
        }
        let [ours @ .., _, _, _, _, _, _, _, _] = ClientId::random().to_bytes();
        let ours = u64::from_ne_bytes(ours).max(1);
        map.confirm(ours);
        lock(&self.client).set_map(Arc::new(map), Arc::downgrade(&self.client));
        Some(FromDaemon::Mapped { nonce: ours, epoch: delegations.epoch() })
    }

    /// Whether anything is held by it.
    pub(super) fn holds(&self) -> bool {
        lock(&self.client).count().0 > 0
    }

    /// Where its leases are noted.
    pub(super) fn leases(&self) -> Option<Leases> {
        Some(Leases::new(self.key?, self.house.files()?.clone()))
    }

    /// Has no later daemon believe the client: if it lives, because it was hung up on, it must not
    /// claim what was its. Once, because it may come back.
    pub(super) fn give_up(&mut self) {
        let is_given_up = mem::replace(&mut self.is_given_up, true);
        if let (false, Some(key), Some(files)) = (is_given_up, self.key, self.house.files()) {
            // If it cannot be removed, it is dead and `sweep` does.
            let _ = files.give_up(key);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if self.house.is_left.load(SeqCst) {
            return;
        }
        // From here on it holds what it holds, as its map says if it was killed in between.
        lock(&self.client).release_idle();
        let left = self.house.rooms().clients.remove(&self.room);
        drop(left);
        let has_ended = lock(&self.client).has_ended();
        if let Some(key) = self.key {
            // It may have come back on another connection.
            if self.house.recovery.withdraw(key, self.room) {
                self.house.maps.take_back(key);
            }
            // Before anything of it is free, unless it cannot come back.
            if !has_ended {
                self.give_up();
            }
            if self.house.adopt(key, &self.client) {
                return self.give_up();
            }
        }
        let leaves_file = !self.is_given_up;
        // Others may need what it has not closed yet.
        let ending = lock(&self.client).ending();
        let client = Arc::clone(&self.client);
        if ending.is_empty() {
            return self.house.forget(self.room, self.key, &client, leaves_file);
        }
        let (house, room, key) = (Arc::clone(&self.house), self.room, self.key);
        self.house.rooms().clients.insert(room, (key, Arc::clone(&client)));
        tokio::spawn(async move {
            for process in ending {
                process.until_ended().await;
            }
            house.forget(room, key, &client, leaves_file);
        });
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("House").finish_non_exhaustive()
    }
}
