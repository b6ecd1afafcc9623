//! The check that all users of some clusters, at any time, have the same list of clusters.
//!
//! A list decides which cluster a name is on. Two machines with different lists could hold one
//! name, each on another cluster. So each cluster has a key that says in which list the cluster is.
//! A connection with a lease on a cluster puts a user key under this lease. It does so by a
//! transaction which checks that the cluster is in the connection's own list:
//!
//! ```text
//! {namespace}/clusters             settled east east,west 0
//! {namespace}/clusters/{lease}     somebody uses it with that list
//! ```
//!
//! If an etcd is used alone, the first of these keys is missing, and the second one exists. Nothing
//! is locked without a lease, so nobody can lock anything without a user key.
//!
//! To get from one list to another, all clusters of both lists are first set to `changing`. Each is
//! set by a transaction which checks that the cluster has no user key. In that state nobody can
//! enter. When every cluster is in that state, or already settled with the new list, each is
//! settled by a transaction which checks that the cluster is unchanged since it was set to
//! `changing`. So a cluster is settled with a list only after a moment in which nobody used any of
//! the clusters with another list. From then on nobody can use another list until somebody changes
//! this one, which is again only possible without any user key. If a program fails in between, the
//! next one goes on from the state that it finds, with this list or another.
//!
//! A name that moves to another cluster must not get smaller fencing tokens there. Each cluster has
//! a base that is added to its own tokens. When a cluster is settled, its base is larger than all
//! tokens that any of the clusters has given.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering::SeqCst},
};

use navlock_core::Error;

use super::{
    agreement::{TRIES, agree, agreed, look, not_alone},
    config::EtcdClusters,
    list::ListStatement,
};
use crate::{
    calls, failure::Failure, keys::BucketKeys, members::Members, options::EtcdOptions,
    runtime::runtime,
};

/// How a connection uses its etcd.
#[derive(Clone, Debug)]
pub(crate) enum ClusterEntry {
    /// It uses this etcd as the only one.
    Alone,
    /// It uses this etcd as one of several clusters.
    OneOf(Arc<OneOf>),
}

/// One of several clusters, and its last statement.
#[derive(Debug)]
pub(crate) struct OneOf {
    clusters: Arc<EtcdClusters>,
    nth: usize,
    /// The revision in which the statement was written.
    written: AtomicI64,
    base: AtomicU64,
}

impl OneOf {
    /// What is added to the tokens of this cluster's grants. It changes only when nothing is held.
    pub(super) fn base(&self) -> u64 {
        self.base.load(SeqCst)
    }

    fn note(&self, written: i64, said: &ListStatement) {
        self.written.store(written, SeqCst);
        self.base.store(said.base, SeqCst);
    }
}

impl ClusterEntry {
    /// Checks, before anything is asked for, that this etcd can be entered. For one of several
    /// clusters, this was checked already.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if this etcd is one of several, and used as the only one;
    /// [`Error::Unreachable`].
    pub(crate) async fn check(
        &self,
        members: &Members,
        options: &EtcdOptions,
    ) -> Result<(), Error> {
        if let Self::OneOf(_) = self {
            return Ok(());
        }
        let looked = look(members, options).await.map_err(Failure::error)?;
        match looked.value {
            None => Ok(()),
            Some(value) => Err(not_alone(&value, options)),
        }
    }

    /// Enters with this lease, which is new.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] if the cluster is used with another list.
    pub(crate) async fn enter(
        &self,
        members: &Members,
        options: &EtcdOptions,
        lease: i64,
    ) -> Result<(), Failure> {
        let (mut asked, mut agreed) = (0, false);
        loop {
            let written = match self {
                Self::Alone => 0,
                Self::OneOf(one) => one.written.load(SeqCst),
            };
            let list = BucketKeys::list_key(&options.namespace);
            let key = BucketKeys::user_key(&options.namespace, lease);
            let entered =
                calls::put_if_written(members, (&list, written), key, lease, options.call()).await;
            let looked = match entered {
                Ok(None) => return Ok(()),
                Ok(Some(looked)) => looked,
                Err(Failure::NoLease) => {
                    return Err(Failure::unknown("a new lease has ended at once"));
                }
                Err(failure) => return Err(failure),
            };
            let one = match (self, &looked.value) {
                (Self::Alone, Some(value)) => {
                    return Err(Failure::Refused(not_alone(value, options)));
                }
                // Somebody has just removed the list.
                (Self::Alone, None) => return Err(Failure::unknown("it has changed")),
                (Self::OneOf(one), _) => one,
            };
            asked += 1;
            let said = looked.value.as_deref().and_then(ListStatement::parse);
            match said {
                Some(said)
                    if said.is_settled && said.list == one.clusters.list() && asked < TRIES =>
                {
                    one.note(looked.written, &said);
                }
                _ if agreed => {
                    return Err(Failure::unknown("the list of clusters changes"));
                }
                // The cluster may have lost its data, or the other clusters agree by now.
                _ => {
                    agreed = true;
                    let all = agree(&one.clusters).await.map_err(|error| match error {
                        Error::Refused(_) => Failure::Refused(error),
                        error => Failure::passing(error),
                    })?;
                    let (written, said) = &all[one.nth];
                    one.note(*written, said);
                }
            }
        }
    }
}

/// Makes all of these clusters use this list, if nobody uses them with another list. Returns how to
/// enter each cluster.
///
/// # Errors
///
/// [`Error::Refused`] if somebody uses another list, if a cluster has another name than it has in
/// this list, or if this list leaves out a cluster of the list before; [`Error::Unreachable`] if a
/// cluster does not answer.
pub(super) async fn enter_all(clusters: Arc<EtcdClusters>) -> Result<Vec<Arc<OneOf>>, Error> {
    let all = agree(&clusters).await?;
    let each = all.into_iter().enumerate().map(|(nth, (written, said))| {
        let (written, base) = (AtomicI64::new(written), AtomicU64::new(said.base));
        Arc::new(OneOf { clusters: Arc::clone(&clusters), nth, written, base })
    });
    Ok(each.collect())
}

impl EtcdClusters {
    /// Asks each cluster in which list it is, without changing anything. Returns a text which says
    /// that all agree with this list. Blocks the thread, which must not be one of a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if a cluster has another list, [`Error::Unreachable`] if a cluster does
    /// not answer.
    pub fn agreed(&self) -> Result<String, Error> {
        self.check()?;
        runtime()?.block_on(agreed(self))
    }
}
