//! PostgreSQL as a store of keys: the calls.

use std::{sync::Arc, time::Duration};

use navlock_core::{Error, UnreachableKind};
use navlock_machines::{
    call_failure::Failure,
    clock::Uptime,
    data::{Answer, KeyValue, Listing, Transaction, prefix_end},
    key_store::{KeeperOptions, KeyStore, LeaseEvent, LeaseKeys, LeaseLeft},
    keys::FORMAT,
    lease::{LeaseName, Renewal},
    load::{Turn, about},
    watched::{Order, Watched},
};
use tokio::{
    sync::{Notify, mpsc},
    time::{self, sleep},
};

use crate::{
    STORE,
    messages::{self, Hello, Listed, Stamp, Told, Transacted, quoted, text},
    options::PostgresOptions,
    postgres::{Own, Postgres, lock},
    schema::VERSION,
};

impl KeyStore for Postgres {
    const NAME: &'static str = STORE;

    /// Long names stand in keys as hashes, so that a key fits into an index.
    const LONGEST_NAME: usize = 1 << 20;

    type Options = PostgresOptions;

    async fn connect(options: PostgresOptions) -> Result<(Self, KeeperOptions), Error> {
        let (keeper, timeout) = (options.keeper.clone(), options.keeper.times.timeout);
        let store = Self::new(options)?;
        let hello = store.hello(timeout).await.map_err(|failure| failure.error(STORE))?;
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
        let call = format!("transact({})", quoted(&text));
        let room = self.room(turn).await;
        let _gate = self.0.gate.read().await;
        let done: Transacted = self.call_in(room, &call).await?;
        let answer = done.answer(&transaction);
        let (changes, mut others) = done.changes();
        others.retain(|(listener, _)| *listener != self.0.listener);
        if !others.is_empty() {
            let store = self.clone();
            tokio::spawn(async move { store.notify(&others).await });
        }
        for change in changes {
            self.take_in(&change.keys);
            self.say(Own::Changed(change));
        }
        // What is found may have been done by a try whose answer was lost.
        self.learn_what_was_done().await?;
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
        // One that was noted is not noted again.
        let noted = lock(&self.0.enlisted).take();
        let id = match noted {
            Some(id) => id,
            None => self.call(&format!("enlist({millis})")).await?,
        };
        *lock(&self.0.enlisted) = Some(id);
        let sent = Uptime::now();
        let stamp: Stamp = self.call(&format!("begin_lease({id}, {millis})")).await?;
        lock(&self.0.enlisted).take();
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
        let room = self.room(Turn::Waits).await;
        let _gate = self.0.gate.read().await;
        let listed: Listed = self.call_in(room, &format!("under({lease})")).await?;
        self.kept().take_all(lease, &listed.keys, listed.stamp.revision);
        let keys = listed.keys.into_iter().map(|told| told.key.into_bytes()).collect();
        Ok(LeaseKeys { cluster: listed.stamp.store, keys })
    }

    async fn lease_left(&self, lease: i64) -> Option<LeaseLeft> {
        let of: Option<(u64, u64)> = self.call(&format!("lease_of({lease})")).await.ok()?;
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

impl Postgres {
    /// Asks what the store is, for so long. A server that is being started, or replaced, answers soon.
    async fn hello(&self, time: Duration) -> Result<Hello, Failure> {
        let mut failure = Failure::timed_out(time);
        let asked = async {
            loop {
                match self.call("hello()").await {
                    Err(Failure::Unknown(why)) if why.kind() == UnreachableKind::Unavailable => {
                        failure = Failure::Unknown(why);
                        sleep(about(Duration::from_millis(200))).await;
                    }
                    answered => break answered,
                }
            }
        };
        let asked = time::timeout(time, asked).await;
        asked.unwrap_or(Err(failure))
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
        let room = self.room(turn).await;
        let _gate = self.0.gate.read().await;
        let listed: Listed = self.call_in(room, &call).await?;
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
