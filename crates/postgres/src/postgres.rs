//! A connection of a machine to PostgreSQL, and what it knows.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use navlock_core::{ClientId, Error, UnreachableKind};
use navlock_machines::{
    call_failure::Failure,
    clock::Uptime,
    key_store::Link,
    load::{Load, Running, Turn},
};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex as AsyncMutex, RwLock, mpsc, watch};

use crate::{
    connection::Connection,
    failures::RECOVERING,
    kept::Kept,
    messages::{Change, Concerned, Ended, Listed, Told, quoted},
    options::PostgresOptions,
    servers::Servers,
};

/// PostgreSQL, as one connection of a machine uses it. It has three sessions: for calls, for renewals, so that they
/// wait for nothing else, and to listen.
#[derive(Clone)]
pub struct Postgres(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: PostgresOptions,
    pub(crate) calls: Connection,
    pub(crate) renewals: Connection,
    /// The servers to listen to.
    pub(crate) listen_servers: Servers,
    /// Who we are among those who listen.
    pub(crate) listener: i64,
    load: Load,
    /// What stands under our leases.
    kept: Mutex<Kept>,
    /// Calls that change what stands there share this until the change has entered `kept`. Whoever puts it back has
    /// it alone.
    pub(crate) gate: RwLock<()>,
    /// Whether a transaction may have been done whose answer was lost. It is locked until that is known.
    may_be_done: AsyncMutex<bool>,
    /// The number of a lease that was noted and has not begun.
    pub(crate) enlisted: Mutex<Option<i64>>,
    /// The leases of others that were seen, to look after those that may keep us waiting.
    pub(crate) seen: Mutex<HashSet<i64>>,
    /// The leases of others, by the lease with whose renewals they are looked after.
    pub(crate) observed: Mutex<HashMap<(i64, i64), Observed>>,
    /// The leases that are just being ended.
    pub(crate) ending: Mutex<HashSet<i64>>,
    /// Changes if the memory may be lost, for those who keep leases.
    pub(crate) recovers: watch::Sender<()>,
    /// Whether a recovery is [seen through](Postgres::see_through).
    pub(crate) sees_through: AtomicBool,
    /// What the watches have to know of us.
    pub(crate) own: Mutex<Option<mpsc::UnboundedSender<Own>>>,
}

/// What is seen of another machine's lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// The era, and how often it was renewed in it.
    pub(crate) renewals: (i64, i64),
    /// Since when it was not renewed, as far as is known: when the first answer was here that has told this number.
    pub(crate) since: Uptime,
    pub(crate) time_to_live: Duration,
}

/// What the watches are told from here.
pub(crate) enum Own {
    /// What was changed in a place.
    Changed(Change),
    /// The place of our mailbox. What others put there has to be known as soon as what they put with it.
    Mailbox(String),
}

/// How many leases of others are looked after at most.
const MOST_SEEN: usize = 256;

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Link for Postgres {
    fn silent(&self) -> Option<Duration> {
        self.0.calls.silent().or_else(|| self.0.renewals.silent())
    }

    fn unreachable(&self) -> Error {
        self.0.calls.unreachable()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned mutex may be used: nothing panics while one of these is locked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Postgres {
    pub(crate) fn new(options: PostgresOptions) -> Result<Self, Error> {
        let (servers, listen_servers) = (options.servers()?, options.listen_servers()?);
        options.check()?;
        let connection = || Connection::new(servers.clone(), options.schema_name().to_owned());
        let random =
            i64::from_be_bytes(ClientId::random().to_bytes()[..8].try_into().unwrap_or_default());
        Ok(Self(Arc::new(Inner {
            calls: connection(),
            renewals: connection(),
            listen_servers,
            ending: Mutex::default(),
            options,
            listener: random,
            load: Load::default(),
            kept: Mutex::default(),
            gate: RwLock::default(),
            may_be_done: AsyncMutex::default(),
            enlisted: Mutex::default(),
            seen: Mutex::default(),
            observed: Mutex::default(),
            recovers: watch::Sender::new(()),
            sees_through: AtomicBool::new(false),
            own: Mutex::default(),
        })))
    }

    /// How long one call may take.
    pub(crate) fn time(&self) -> Duration {
        self.0.options.keeper.times.call()
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.0.kept)
    }

    /// Waits until there is room for a call.
    pub(crate) async fn room(&self, turn: Turn) -> Option<Running<'_>> {
        match turn {
            Turn::Waits => Some(self.0.load.enter().await),
            Turn::Passes => None,
        }
    }

    /// Makes a call that waits for no room.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: &str) -> Result<T, Failure> {
        self.call_in(None, call).await
    }

    /// Makes a call, by the connection for calls.
    pub(crate) async fn call_in<T: DeserializeOwned>(
        &self,
        room: Option<Running<'_>>,
        call: &str,
    ) -> Result<T, Failure> {
        let answer = self.0.calls.call(call, self.time()).await;
        if let Some(running) = room {
            match &answer {
                Err(Failure::Unknown(why)) if why.kind() == UnreachableKind::TimedOut => {
                    running.note_late();
                }
                Err(Failure::Unknown(_)) => {}
                _ => running.note_served(),
            }
        }
        if matches!(&answer, Err(Failure::Unknown(why)) if why.message() == RECOVERING) {
            self.0.recovers.send_replace(());
            self.see_through();
        }
        answer
    }

    /// Takes in what has happened to keys of any machine.
    pub(crate) fn take_in(&self, told: &[Told]) {
        self.kept().take_in(told);
        self.see(told);
    }

    /// Has the leases looked after under which these keys are.
    pub(crate) fn see(&self, told: &[Told]) {
        let mut seen = lock(&self.0.seen);
        let leases = told.iter().map(|told| told.lease).filter(|lease| *lease != 0);
        let room = MOST_SEEN.saturating_sub(seen.len());
        seen.extend(leases.take(room));
    }

    /// Tells the watches. If there are none, they will ask.
    pub(crate) fn say(&self, own: Own) {
        if let Some(watches) = &*lock(&self.0.own) {
            let _ = watches.send(own);
        }
    }

    /// Notifies these listeners, in a transaction of its own: what it has to wait for keeps nobody's turn. If a note is
    /// lost, they hear when they ask.
    pub(crate) async fn notify(&self, others: &Concerned) {
        if others.is_empty() {
            return;
        }
        let schema = self.0.options.schema_name();
        let notes = others.iter().map(|(listener, place)| {
            format!("pg_notify('{}', {})", channel(schema, *listener), quoted(place))
        });
        let text = format!("select {}", notes.collect::<Vec<_>>().join(", "));
        let _ = self.0.calls.query(&text, self.time()).await;
    }

    /// Learns what transactions have done whose answers were lost, before anybody else hears of it.
    pub(crate) async fn learn_what_was_done(&self) -> Result<(), Failure> {
        let mut may_be_done = self.0.may_be_done.lock().await;
        *may_be_done |= self.0.calls.has_lost_answer.swap(false, Ordering::Relaxed);
        if *may_be_done {
            let leases = self.kept().leases();
            for (lease, time_to_live) in leases {
                self.learn(lease, time_to_live).await?;
            }
            *may_be_done = false;
        }
        Ok(())
    }

    /// Learns what stands under a lease, which is kept from now on. Who calls this shares the gate.
    pub(crate) async fn learn(&self, lease: i64, time_to_live: Duration) -> Result<(), Failure> {
        let listed: Listed = self.call(&format!("under({lease})")).await?;
        let mut kept = self.kept();
        kept.keep(lease, time_to_live);
        kept.take_all(lease, &listed.keys, listed.stamp.revision);
        Ok(())
    }

    /// Ends a lease of any machine: any, or one that was renewed this often in this era.
    pub(crate) async fn end_lease(
        &self,
        lease: i64,
        seen: Option<(i64, i64)>,
    ) -> Result<bool, Failure> {
        let seen =
            seen.map_or("null, null".to_owned(), |(era, renewals)| format!("{era}, {renewals}"));
        let ended: Ended = self.call(&format!("end_lease({lease}, {seen})")).await?;
        self.notify(&ended.others).await;
        Ok(ended.ended)
    }
}

/// Numbers as a part of an array of SQL.
pub(crate) fn joined(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}

/// The channel on which this listener is notified.
pub(crate) fn channel(schema: &str, listener: i64) -> String {
    format!("{schema}_{listener:x}")
}
