//! The users whose processes use the machine's broker: what each of them may have, see and do.
//!
//! Such a broker serves whoever may connect, and asks the kernel whose process that is. What one user has counts
//! together, over all connections, so that no user can shut out another one.

use std::{
    collections::HashSet,
    io, mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use navlock_core::{AgentInfo, ClientId, host::program, look::Change};
use navlock_platform::{
    peer, process,
    socket::Stream,
    user::{self, ROOT, UserId, name_of},
};
use navlock_wire::ClientKey;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::{files_of_user::FilesOfUser, options::Limits, timers::timeout};
use crate::{client_files::ClientFiles, sync::lock, this_process::user_words};

/// How many bytes of one user are read in one turn, so that others need not wait for more. The order in which this
/// user's own messages count may differ from that in which they were sent, if they are more than that.
const MOST_IN_A_TURN: usize = 128 << 10;

/// Connections of one user that keep much in memory are hung up on while all of them keep this many bytes.
const MOST_BYTES: usize = 64 << 20;

/// How many answers of one user may be on their way.
const ANSWERS: usize = 16;

/// How many thefts of one user are decided in one turn. For each, the whole queue is looked through.
const THEFTS: usize = 2;

/// How many connections of one user may ask something in one turn before they introduce themselves.
const QUESTIONS: usize = 4;

/// For how long the name of a user is waited for.
const NAMED: Duration = Duration::from_secs(2);

/// How many processes of one user may look at a time, and how many pictures may be made for it besides.
pub(super) const LOOKERS: usize = 8;

/// All guests.
#[derive(Debug)]
pub(super) struct Guests {
    limits: Limits,
    users: Mutex<Vec<Arc<User>>>,
}

/// One user, whose processes are guests.
#[derive(Debug)]
pub(super) struct User {
    id: UserId,
    /// The user's name, as far as it was asked for. To ask may take as long as a directory service does not answer.
    name: OnceLock<String>,
    /// Notified when the name is known.
    named: Notify,
    /// Whether this user may do all: it is root, or the user whose process the broker is.
    may_all: bool,
    connections: AtomicUsize,
    lookers: AtomicUsize,
    /// Agents, requests and locks.
    things: AtomicUsize,
    bytes: AtomicUsize,
    answers: AtomicUsize,
    /// Permits for questions before an introduction, and for single pictures.
    questions: Semaphore,
    pictures: Semaphore,
    files: Mutex<FilesOfUser>,
    /// The number of the look in which something was read last, and how many bytes were read and thefts decided in it.
    look: AtomicU64,
    read: AtomicUsize,
    thefts: AtomicUsize,
}

/// A connection of a user, or the locks that it has left to others. To drop this gives back what it counts for.
#[derive(Debug)]
pub(super) struct Guest {
    user: Arc<User>,
    /// Whether it counts as a connection.
    counts: bool,
    looks: bool,
    things: usize,
    bytes: usize,
}

/// An answer on its way. To drop this ends it.
pub(super) struct OpenAnswer(Arc<User>);

impl Guests {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, users: Mutex::default() }
    }

    /// The guest at the other end, and, if there is no room for it among the `most` clients that there can be, why.
    ///
    /// # Errors
    ///
    /// If the system does not say who it is.
    pub(super) fn admit(
        &self,
        stream: &Stream,
        most: usize,
    ) -> io::Result<(Guest, Option<String>)> {
        let user = self.user(peer::of(stream)?.user);
        let most = self.limits.connections_of_user.min(most / 4);
        let is_full = user.connections.load(Relaxed) >= most;
        let full = is_full.then(|| {
            format!("this user has {most} connections, as many as one user may have; end some")
        });
        Ok((Guest::of(user, !is_full), full))
    }

    /// A client of an earlier daemon, whose locks others have inherited.
    pub(super) fn readmit(&self, key: ClientKey) -> Guest {
        let [a, b, c, d, ..] = key;
        Guest::of(self.user(user::of_number(u32::from_be_bytes([a, b, c, d]))), true)
    }

    /// Removes the files that the ended clients of absent users have left. To be called every few seconds.
    pub(super) fn tidy(&self, files: &ClientFiles) {
        let absent = |user: &&Arc<User>| Arc::strong_count(user) == 1;
        for user in lock(&self.users).iter().filter(absent) {
            lock(&user.files).forget_removed(files);
        }
    }

    fn user(&self, id: UserId) -> Arc<User> {
        let mut users = lock(&self.users);
        // Files count also while no connection of the user is open.
        users.retain(|user| Arc::strong_count(user) > 1 || lock(&user.files).are_left());
        let known = users.iter().find(|user| user.id == id).map(Arc::clone);
        known.unwrap_or_else(|| {
            let user = Arc::new(User::new(id));
            users.push(Arc::clone(&user));
            let asked = Arc::clone(&user);
            let asking = thread::Builder::new().name("navlock-user".to_owned()).spawn(move || {
                let _ = asked.name.set(name_of(asked.id).unwrap_or_else(|| user_words(asked.id)));
                asked.named.notify_waiters();
            });
            if asking.is_err() {
                // Without a thread, the number stands for the name.
                user.name();
            }
            user
        })
    }
}

impl User {
    fn new(id: UserId) -> Self {
        Self {
            name: OnceLock::new(),
            named: Notify::new(),
            may_all: id == ROOT || id == user::ours(),
            id,
            connections: AtomicUsize::new(0),
            lookers: AtomicUsize::new(0),
            things: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            questions: Semaphore::new(QUESTIONS),
            pictures: Semaphore::new(LOOKERS),
            files: Mutex::default(),
            look: AtomicU64::new(0),
            read: AtomicUsize::new(0),
            thefts: AtomicUsize::new(0),
        }
    }

    /// Waits until the user's name is known, but not for long.
    pub(super) async fn is_named(&self) {
        let named = self.named.notified();
        tokio::pin!(named);
        named.as_mut().enable();
        if self.name.get().is_none() {
            let _ = timeout(NAMED, named).await;
        }
    }

    /// The user's name. If it is not known yet, the user's number stands for it from now on.
    pub(super) fn name(&self) -> &str {
        self.name.get_or_init(|| user_words(self.id))
    }

    /// Whether a client of this key is this user's. Nobody can speak for a client of another user.
    pub(super) fn has(&self, key: ClientKey) -> bool {
        key.starts_with(&user::number(self.id).to_be_bytes())
    }

    /// Waits until one of the connections of this user may ask something that all clients are looked through for.
    pub(super) async fn may_ask(&self) -> Option<SemaphorePermit<'_>> {
        self.questions.acquire().await.ok()
    }

    /// Waits until one of the connections of this user may have a picture, and nothing after it.
    pub(super) async fn may_look_once(&self) -> Option<SemaphorePermit<'_>> {
        self.pictures.acquire().await.ok()
    }

    /// Whether a process of this user has this number.
    pub(super) fn has_process(&self, number: u32) -> bool {
        process::user_of(number) == Some(self.id)
    }

    /// Whether this user may have more requests, locks and agents.
    pub(super) fn has_room(&self, limits: &Limits) -> bool {
        self.things.load(Relaxed) < limits.requests && self.bytes.load(Relaxed) < limits.name_bytes
    }

    /// Whether this user may end what is the other's, and change how the broker works.
    pub(super) fn may(&self, other: &Self) -> bool {
        self.may_all || self.id == other.id
    }

    /// Whether this user may end the broker and change how it works.
    pub(super) fn may_all(&self) -> bool {
        self.may_all
    }

    /// Whether all connections of the user keep so much in memory that one that keeps much has to go.
    pub(super) fn keeps_too_much(&self) -> bool {
        self.bytes.load(Relaxed) > MOST_BYTES
    }

    /// Whether another answer of the user may be on its way.
    pub(super) fn may_be_answered(&self) -> bool {
        self.answers.load(Relaxed) < ANSWERS
    }

    /// An answer that is on its way.
    pub(super) fn open_answer(self: &Arc<Self>) -> OpenAnswer {
        self.answers.fetch_add(1, Relaxed);
        OpenAnswer(Arc::clone(self))
    }

    /// Whether a theft of the user may be decided in this turn.
    pub(super) fn may_steal(&self) -> bool {
        self.thefts.fetch_add(1, Relaxed) < THEFTS
    }

    /// Whether more may be read in this look of the turns.
    pub(super) fn may_be_read(&self, look: u64) -> bool {
        if self.look.swap(look, Relaxed) != look {
            self.read.store(0, Relaxed);
            self.thefts.store(0, Relaxed);
        }
        self.read.load(Relaxed) < MOST_IN_A_TURN
    }

    /// Notes that this many bytes were read.
    pub(super) fn was_read(&self, bytes: usize) {
        self.read.fetch_add(bytes, Relaxed);
    }

    /// Whether this is of the user, or the user may see all.
    fn sees(&self, info: &AgentInfo) -> bool {
        self.may_all || info.user == self.name()
    }

    /// Leaves of what an agent says of itself what this user may see.
    pub(super) fn veil(&self, info: &mut Arc<AgentInfo>) {
        if !self.sees(info) {
            veil(info);
        }
    }
}

/// Leaves of what an agent says of itself what all users may see: the process and its program, and whose it is.
fn veil(info: &mut Arc<AgentInfo>) {
    let info = Arc::make_mut(info);
    info.why.clear();
    info.meta.clear();
    info.command = program(&info.command);
}

/// Leaves of a change what all users may see.
pub(super) fn veil_change(change: &mut Change) {
    match change {
        Change::AgentCame { details, .. } => veil(&mut details.info),
        Change::Requested { entry, .. }
        | Change::Granted { entry, .. }
        | Change::Owned { entry, .. } => entry.why = None,
        _ => {}
    }
}

/// What a looker of a user is shown.
pub(super) struct View {
    user: Arc<User>,
    /// The user's own agents.
    own: HashSet<ClientId>,
}

impl View {
    /// What this user is shown; `None` if that is all.
    pub(super) fn of(user: &Arc<User>) -> Option<Self> {
        (!user.may_all).then(|| Self { user: Arc::clone(user), own: HashSet::new() })
    }

    /// Leaves of a change what the user may see.
    pub(super) fn veil(&mut self, change: &mut Change) {
        match change {
            Change::AgentCame { agent, details } if self.user.sees(&details.info) => {
                self.own.insert(*agent);
            }
            Change::AgentWent { agent } => _ = self.own.remove(agent),
            _ if change.agent().is_some_and(|agent| self.own.contains(&agent)) => {}
            _ => veil_change(change),
        }
    }
}

impl Guest {
    fn of(user: Arc<User>, counts: bool) -> Self {
        user.connections.fetch_add(usize::from(counts), Relaxed);
        Self { user, counts, looks: false, things: 0, bytes: 0 }
    }

    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// The user's files.
    ///
    /// # Errors
    ///
    /// Why it may have none.
    pub(super) fn files(&self) -> Result<MutexGuard<'_, FilesOfUser>, String> {
        let refused = || "this user has as many connections as one user may have".to_owned();
        self.counts.then(|| lock(&self.user.files)).ok_or_else(refused)
    }

    /// A thief of this user, who has no connection.
    pub(super) fn thief(user: Arc<User>) -> Self {
        Self::of(user, false)
    }

    /// Notes how much the connection has now.
    pub(super) fn has_now(&mut self, things: usize, bytes: usize) {
        let Self { user, things: before, bytes: bytes_before, .. } = self;
        for (all, before, now) in
            [(&user.things, before, things), (&user.bytes, bytes_before, bytes)]
        {
            let before = mem::replace(before, now);
            all.fetch_add(now, Relaxed);
            all.fetch_sub(before, Relaxed);
        }
    }

    /// Counts the connection as one that looks, if there is room for it.
    pub(super) fn may_look(&mut self) -> bool {
        self.looks = self.user.lookers.fetch_add(1, Relaxed) < LOOKERS;
        if !self.looks {
            self.user.lookers.fetch_sub(1, Relaxed);
        }
        self.looks
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.has_now(0, 0);
        self.user.lookers.fetch_sub(usize::from(self.looks), Relaxed);
        self.user.connections.fetch_sub(usize::from(self.counts), Relaxed);
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.0.answers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
