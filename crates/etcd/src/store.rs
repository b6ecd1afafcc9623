//! Etcd as a store of keys.

use std::{sync::Arc, time::Duration};

use navlock_core::Error;
use tokio::sync::{Notify, mpsc};

use crate::{
    STORE,
    call_failure::Failure,
    calls,
    data::{Answer, KeyValue, Listing, Transaction},
    formats, keep_alive,
    key_store::{KeeperOptions, KeyStore, LeaseEvent, LeaseKeys, LeaseLeft},
    keys::BucketKeys,
    lease::{self, LeaseName, Renewal},
    load::Turn,
    members::Members,
    options::EtcdOptions,
    watch,
    watched::{Order, Watched},
};

impl KeyStore for Members {
    const NAME: &'static str = STORE;

    /// Etcd takes 1.5 MiB in one request.
    const LONGEST_NAME: usize = (1 << 20) + (1 << 18);

    type Options = EtcdOptions;

    async fn connect(options: EtcdOptions) -> Result<(Self, KeeperOptions), Error> {
        options.check()?;
        let members = Self::connect(options.clone()).await?;
        formats::look(&members, &options).await?;
        Ok((members, options.keeper))
    }

    async fn transact(&self, transaction: Transaction, turn: Turn) -> Result<Answer, Failure> {
        calls::transact(self, transaction, turn).await
    }

    async fn list(&self, prefix: Vec<u8>, most: usize, at: i64) -> Result<Listing, Failure> {
        calls::list(self, &prefix, (most, at)).await
    }

    async fn get(&self, key: Vec<u8>, turn: Turn) -> Result<Option<KeyValue>, Failure> {
        calls::get(self, key, turn).await
    }

    async fn begin_lease(&self) -> Result<(LeaseName, Renewal), Failure> {
        formats::claim(self, self.options()).await?;
        calls::lease(self, self.options().seconds()).await
    }

    async fn revoke(&self, lease: i64) {
        calls::revoke(self, lease, self.options().keeper.times.time_to_live).await;
    }

    async fn under(&self, lease: i64) -> Result<LeaseKeys, Failure> {
        calls::under(self, lease).await
    }

    /// The leader answers from memory (`LeaseTimeToLive`): nothing is written, and no other member is asked.
    async fn lease_left(&self, lease: i64) -> Option<LeaseLeft> {
        let mut client = self.current().client;
        let answer = client.lease_time_to_live(lease).await.ok()?;
        if !answer.is_there() {
            return None;
        }
        let seconds =
            |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let granted = seconds(answer.granted_ttl);
        // Etcd leaves out the fraction of a second.
        let left = (seconds(answer.ttl) + Duration::from_secs(1)).min(granted);
        Some(LeaseLeft { granted, left })
    }

    async fn keep(
        &self,
        lease: i64,
        mailbox: Vec<u8>,
        time_to_live: Option<Duration>,
        wanted: Arc<Notify>,
        tell: impl Fn(LeaseEvent) + Send + Sync + 'static,
    ) {
        keep_alive::keep(self, (lease, mailbox), time_to_live, &wanted, tell).await;
    }

    async fn watch(
        &self,
        orders: mpsc::UnboundedReceiver<Order>,
        tell: impl Fn(u64, Watched) + Send + Sync + 'static,
    ) {
        let KeeperOptions { times, namespace, .. } = &self.options().keeper;
        let nothing = BucketKeys::nothing(namespace);
        let check = watch::Check::new(nothing, lease::pause(times.time_to_live));
        watch::watch(self, orders, check, tell).await;
    }
}
