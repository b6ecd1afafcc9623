//! PostgreSQL as a store of keys: the calls.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use navlock_core::{ClientId, Error, UnreachableKind};
use navlock_machines::{
    call_failure::Failure,
    clock::Uptime,
    data::{Answer, KeyValue, Listing, Transaction, prefix_end},
    key_store::{KeeperOptions, KeyStore, LeaseEvent, LeaseKeys, LeaseLeft, Link},
    keys::FORMAT,
    lease::{LeaseName, Renewal},
    load::{Load, Turn, about},
    watched::{Order, Watched},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, RwLock, mpsc, watch},
    time::{self, sleep},
};

use crate::{
    LOGS, STORE,
    connection::Connection,
    failures::RECOVERING,
    keeping::Observed,
    kept::Kept,
    messages::{self, Concerned, Ended, Hello, Listed, Stamp, Told, Transacted, quoted, text},
    options::PostgresOptions,
    schema::VERSION,
};

/// PostgreSQL, as one connection of a machine uses it. It has three sessions: for calls, for renewals, so that they
/// wait for nothing else, and to listen.
#[derive(Clone)]
pub struct Postgres(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: PostgresOptions,
    pub(crate) calls: Connection,
    pub(crate) renewals: Connection,
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
    /// The leases of others that were seen, to look after those that may keep us waiting.
    pub(crate) seen: Mutex<HashSet<i64>>,
    /// The leases of others, by the lease with whose renewals they are looked after.
    pub(crate) observed: Mutex<HashMap<(i64, i64), Observed>>,
    /// Changes if the memory may be lost, for those who keep leases.
    pub(crate) recovers: watch::Sender<()>,
    /// What the watches have to know of us.
    pub(crate) own: Mutex<Option<mpsc::UnboundedSender<Own>>>,
}

/// What the watches are told from here.
pub(crate) enum Own {
    /// What was changed in a place, and the revision of the change before.
    Changed(String, i64, Vec<Told>),
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
    fn new(options: PostgresOptions) -> Result<Self, Error> {
        let config = options.config()?;
        options.listen_config()?;
        let connection = || Connection::new(config.clone(), options.schema_name().to_owned());
        let random =
            i64::from_be_bytes(ClientId::random().to_bytes()[..8].try_into().unwrap_or_default());
        Ok(Self(Arc::new(Inner {
            calls: connection(),
            renewals: connection(),
            options,
            listener: random,
            load: Load::default(),
            kept: Mutex::default(),
            gate: RwLock::default(),
            may_be_done: AsyncMutex::default(),
            seen: Mutex::default(),
            observed: Mutex::default(),
            recovers: watch::Sender::new(()),
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

    /// Makes a call, by the connection for calls.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        call: &str,
        turn: Turn,
    ) -> Result<T, Failure> {
        let running = match turn {
            Turn::Waits => Some(self.0.load.enter().await),
            Turn::Passes => None,
        };
        let answer = self.0.calls.call(call, self.time()).await;
        if let Some(running) = running {
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
        }
        answer
    }

    /// Takes in what has happened to keys of any machine.
    pub(crate) fn take_in(&self, told: &[Told]) {
        self.kept().take_in(told);
        self.see(told);
    }

    /// Has the leases looked after under which these keys are.
    fn see(&self, told: &[Told]) {
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

    /// Notifies these listeners, in a transaction of its own: what it has to wait for keeps nobody's turn.
    fn notify(&self, others: &Concerned) {
        if others.is_empty() {
            return;
        }
        let notes = others.iter().map(|(listener, place)| {
            format!(
                "pg_notify('{}', {})",
                channel(self.0.options.schema_name(), *listener),
                quoted(place)
            )
        });
        let text = format!("select {}", notes.collect::<Vec<_>>().join(", "));
        let store = self.clone();
        // If it is lost, they hear when they ask.
        tokio::spawn(async move { store.0.calls.query(&text, store.time()).await });
    }

    /// Learns what transactions have done whose answers were lost, before anybody else hears of it.
    async fn learn_what_was_done(&self) -> Result<(), Failure> {
        let mut may_be_done = self.0.may_be_done.lock().await;
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
        let listed: Listed = self.call(&format!("under({lease})"), Turn::Passes).await?;
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
        let ended: Ended = self.call(&format!("end_lease({lease}, {seen})"), Turn::Passes).await?;
        self.notify(&ended.others);
        Ok(ended.ended)
    }

    /// Puts back what stands under our leases, in this era. Nothing that was done before it is told any more once it
    /// has begun.
    pub(crate) async fn put_back(&self, era: i64) -> Result<(), Failure> {
        let _gate = self.0.gate.write().await;
        let (leases, keys) = self.kept().json();
        tracing::warn!(target: LOGS, %leases, "PostgreSQL has lost its memory: the keys under our leases are put back");
        let (leases, keys) = (quoted(&leases.to_string()), quoted(&keys.to_string()));
        let _: Stamp =
            self.call(&format!("put_back({era}, {leases}, {keys})"), Turn::Passes).await?;
        Ok(())
    }

    /// Ends the recovery of this era, if that is possible.
    pub(crate) async fn end_recovery(&self, era: i64, has_waited: bool) -> Result<(), Failure> {
        let _: Stamp =
            self.call(&format!("end_recovery({era}, {has_waited})"), Turn::Passes).await?;
        Ok(())
    }

    async fn range(
        &self,
        first: &str,
        behind: &str,
        most: usize,
        at: i64,
        turn: Turn,
    ) -> Result<Listing, Failure> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let call = format!("list({}, {}, {most}, {at})", quoted(first), quoted(behind));
        let _gate = self.0.gate.read().await;
        let listed: Listed = self.call(&call, turn).await?;
        self.see(&listed.keys);
        if at == 0 && listed.left_out == 0 {
            self.kept().take_range(first, behind, &listed.keys, listed.stamp.revision);
        } else {
            self.kept().take_in(&listed.keys);
        }
        let strange = || Failure::unknown("a list that cannot be read");
        Ok(Listing {
            revision: if at == 0 { listed.stamp.revision } else { at },
            cluster: listed.stamp.store,
            found: listed
                .keys
                .iter()
                .map(Told::key_value)
                .collect::<Option<_>>()
                .ok_or_else(strange)?,
            left_out: listed.left_out,
        })
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

impl KeyStore for Postgres {
    const NAME: &'static str = STORE;

    /// Names stand in an index, which takes a third of a page.
    const LONGEST_NAME: usize = 1 << 20;

    type Options = PostgresOptions;

    async fn connect(options: PostgresOptions) -> Result<(Self, KeeperOptions), Error> {
        let (keeper, timeout) = (options.keeper.clone(), options.keeper.times.timeout);
        let store = Self::new(options)?;
        let hello = time::timeout(timeout, store.call::<Hello>("hello()", Turn::Passes)).await;
        let hello = hello
            .unwrap_or_else(|_| Err(Failure::timed_out(timeout)))
            .map_err(|failure| failure.error(STORE))?;
        if (hello.version, &*hello.format) != (VERSION, FORMAT) {
            return Err(Error::refused(format!(
                "the schema {} of this database has version {}, format {}, and this release needs version {VERSION}, \
                 format {FORMAT}: end all that use it, and set it up anew",
                store.0.options.schema_name(),
                hello.version,
                hello.format
            )));
        }
        Ok((store, keeper))
    }

    async fn transact(&self, transaction: Transaction, turn: Turn) -> Result<Answer, Failure> {
        let text = messages::transaction(&transaction)?.to_string();
        let _gate = self.0.gate.read().await;
        let call = format!("transact({}, {})", quoted(&text), self.0.listener);
        let done: Result<Transacted, _> = self.call(&call, turn).await;
        if matches!(done, Err(Failure::Unknown(_))) {
            // It may have been done, and the next try then finds what it has done.
            *self.0.may_be_done.lock().await = true;
        }
        let done = done?;
        done.news.iter().for_each(|(_, _, told)| self.take_in(told));
        self.learn_what_was_done().await?;
        let answer = done.answer(&transaction);
        for (place, before, told) in done.news {
            self.say(Own::Changed(place, before, told));
        }
        self.notify(&done.others);
        answer
    }

    async fn list(&self, prefix: Vec<u8>, most: usize, at: i64) -> Result<Listing, Failure> {
        let behind = prefix_end(&prefix);
        self.range(text(&prefix)?, text(&behind)?, most, at, Turn::Waits).await
    }

    async fn get(&self, key: Vec<u8>, turn: Turn) -> Result<Option<KeyValue>, Failure> {
        let key = text(&key)?;
        let found = self.range(key, &format!("{key} "), 1, 0, turn).await?;
        Ok(found.found.into_iter().next())
    }

    async fn begin_lease(&self) -> Result<(LeaseName, Renewal), Failure> {
        let time_to_live = self.0.options.keeper.times.time_to_live;
        let millis = time_to_live.as_millis();
        let id: i64 = self.call(&format!("enlist({millis})"), Turn::Passes).await?;
        let sent = Uptime::now();
        let call = format!("begin_lease({id}, {millis}, {})", self.0.listener);
        let stamp: Stamp = self.call(&call, Turn::Passes).await?;
        let lease = LeaseName { cluster: stamp.store, id };
        self.kept().keep(lease.id, time_to_live);
        Ok((lease, Renewal { sent, time_to_live }))
    }

    async fn revoke(&self, lease: i64) {
        let revoked = async {
            while let Err(Failure::Unknown(_)) = self.end_lease(lease, None).await {
                sleep(about(Duration::from_millis(200))).await;
            }
        };
        let _ = time::timeout(self.0.options.keeper.times.time_to_live, revoked).await;
    }

    async fn under(&self, lease: i64) -> Result<LeaseKeys, Failure> {
        let _gate = self.0.gate.read().await;
        let listed: Listed = self.call(&format!("under({lease})"), Turn::Waits).await?;
        self.kept().take_all(lease, &listed.keys, listed.stamp.revision);
        let keys = listed.keys.into_iter().map(|told| told.key.into_bytes()).collect();
        Ok(LeaseKeys { cluster: listed.stamp.store, keys })
    }

    async fn lease_left(&self, lease: i64) -> Option<LeaseLeft> {
        let of: Option<(u64, u64)> =
            self.call(&format!("lease_of({lease})"), Turn::Passes).await.ok()?;
        let (granted, silent) = of?;
        let left = Duration::from_millis(granted.saturating_sub(silent));
        Some(LeaseLeft { granted: Duration::from_millis(granted), left })
    }

    async fn keep(
        &self,
        lease: i64,
        mailbox: Vec<u8>,
        time_to_live: Option<Duration>,
        wanted: Arc<Notify>,
        tell: impl Fn(LeaseEvent) + Send + Sync + 'static,
    ) {
        self.keep_lease(lease, mailbox, time_to_live, &wanted, tell).await;
    }

    async fn watch(
        &self,
        orders: mpsc::UnboundedReceiver<Order>,
        tell: impl Fn(u64, Watched) + Send + Sync + 'static,
    ) {
        self.watch_all(orders, tell).await;
    }
}
