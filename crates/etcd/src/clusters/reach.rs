//! The reach over several clusters: each bucket has a part on each of them.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, try_join_all};
use navlock_core::{
    ClientId, Error, ResourceName,
    host::{Backend, EvictFuture, Reach, RevokeFuture},
};
use navlock_engine::FencingToken;
use tokio::sync::oneshot;

use super::{
    backend::ClustersBackend,
    cluster_entry::{ClusterEntry, OneOf, enter_all},
    config::{EtcdClusters, of},
    connections::{Connected, Connections},
};
use crate::{lease::SHARE, reach::EtcdReach, runtime::on_a_thread};

/// The reach of many machines, by several etcd clusters that share the names. Clones share the
/// connections. Like those of [`EtcdReach`], the connections end when the last clone, and all that
/// was made with the clones, is dropped.
#[derive(Clone, Debug)]
pub struct ClustersReach(Arc<Connections>);

impl ClustersReach {
    /// Connects to all clusters, and checks that nobody uses one of them with another list.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if a cluster does not answer, [`Error::Refused`] if the options
    /// cannot be used, or if others use a cluster in a format of another release, alone, or with
    /// another list.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections, once they are there.
    pub async fn connect(clusters: EtcdClusters) -> Result<Self, Error> {
        clusters.check()?;
        let entries = enter(Arc::new(clusters.clone())).await?;
        let each = clusters.clusters.iter().zip(entries).filter(|(one, _)| !one.is_retired);
        let connect = each.map(|(one, entry)| async move {
            let connected =
                EtcdReach::connect_as(one.options.clone(), ClusterEntry::OneOf(Arc::clone(&entry)))
                    .await;
            let reach = connected.map_err(|error| of(&one.name, error))?;
            Ok::<_, Error>(Connected { name: one.name.clone(), reach, entry })
        });
        let parts = try_join_all(connect).await?;
        Ok(Self(Arc::new(Connections { clusters, parts })))
    }

    /// The cluster that a lock of this name is on.
    pub fn cluster_of(&self, bucket: &str, name: &ResourceName) -> &str {
        &self.0.parts[self.0.part_of(bucket, name)].name
    }
}

/// See [`enter_all`]. It runs on a thread of its own, because the caller may have another executor,
/// or none.
async fn enter(clusters: Arc<EtcdClusters>) -> Result<Vec<Arc<OneOf>>, Error> {
    let serve = async move |answer: oneshot::Sender<_>| {
        // If the caller is gone, nobody receives this.
        let _ = answer.send(enter_all(clusters).await);
    };
    Ok(on_a_thread("navlock-etcds", serve).await?.0)
}

impl Reach for ClustersReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(ClustersBackend::new(Arc::clone(&self.0), name))
    }

    fn is_leased(&self) -> bool {
        true
    }

    fn grace(&self) -> Duration {
        self.0.parts.iter().map(|part| part.reach.grace()).max().unwrap_or_default()
    }

    fn lease(&self) -> Option<Vec<u8>> {
        let leases: Vec<_> = self.0.parts.iter().filter_map(|part| part.reach.lease()).collect();
        (!leases.is_empty()).then(|| leases.concat())
    }

    fn revoke(&self, leases: Vec<Vec<u8>>) -> RevokeFuture<'_> {
        // Each share tells its cluster. The other clusters ignore it.
        let shares: Vec<_> =
            leases.iter().flat_map(|lease| lease.chunks(SHARE)).map(<[u8]>::to_vec).collect();
        let revoked = self.0.parts.iter().map(move |part| part.reach.revoke(shares.clone()));
        let revoked = join_all(revoked);
        Box::pin(async move { revoked.await.into_iter().all(|is_over| is_over) })
    }

    fn evict(
        &self,
        bucket: &str,
        name: &ResourceName,
        seen: Vec<(ClientId, FencingToken)>,
    ) -> EvictFuture<'_> {
        let part = &self.0.parts[self.0.part_of(bucket, name)];
        let base = part.entry.base();
        let lowered = |(client_id, token): (_, FencingToken)| {
            (client_id, FencingToken::new(token.get().saturating_sub(base)))
        };
        let evicted = part.reach.evict(bucket, name, seen.into_iter().map(lowered).collect());
        Box::pin(async move { evicted.await.map_err(|error| of(&part.name, error)) })
    }

    fn outage(&self) -> Option<String> {
        let each = self.0.parts.iter();
        let silent = each.filter_map(|part| {
            part.reach.silent().map(|silent| format!("etcd cluster {} {silent}", part.name))
        });
        let silent: Vec<_> = silent.collect();
        (!silent.is_empty()).then(|| silent.join("; "))
    }

    fn details(&self) -> Vec<(String, String)> {
        let active = self.0.parts.iter().map(|part| {
            let (endpoint, answers) = part.reach.spoken_to();
            let how = if answers { "answers" } else { "does not answer" };
            (format!("cluster {}", part.name), format!("{endpoint} {how}"))
        });
        let retired = self.0.clusters.each().filter(|(.., is_retired)| *is_retired);
        let retired =
            retired.map(|(name, ..)| (format!("retired {name}"), "no name is on it".to_owned()));
        active.chain(retired).collect()
    }
}
