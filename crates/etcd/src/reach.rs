//! The reach of many machines, by one etcd.

use std::{sync::Arc, time::Duration};

use navlock_core::{
    ClientId, Error, ResourceName, UserAgent,
    host::{Backend, EvictFuture, Reach, RevokeFuture},
};
use navlock_engine::FencingToken;
use navlock_machines::failure::gone;
use tokio::sync::{mpsc, oneshot};

use crate::{
    STORE,
    backend::EtcdBackend,
    connection::Connection,
    formats,
    keeper::{Message, Shared},
    lease::Share,
    left::Held,
    members::Members,
    options::EtcdOptions,
    runtime::on_a_thread,
    thread::{Order, Thread},
};

/// A user agent whose locks are seen by all who use this etcd.
///
/// Each call makes a connection of its own, with a thread of its own. Works on any executor. The connection
/// ends with the last handle of the user agent. If the process ends before that, the locks and requests of
/// its agents, and the names that it [owns](EtcdOptions::keep_names), stay until its lease is over. No broker is
/// needed.
///
/// ```no_run
/// # use navlock::{EtcdOptions, etcd};
/// # navlock::blocking::block_on(async {
/// let options = EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"]);
/// let locks = etcd(options).await?.lock_manager("my-app");
/// let guard = locks.lock("db").await?;
///
/// // A machine that is cut off loses its locks, and is told before others are granted them.
/// guard.lost().await;
/// # Ok::<(), navlock::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// [`Error::Unreachable`] if etcd does not answer, [`Error::Refused`] if the options cannot be used.
pub async fn etcd(options: EtcdOptions) -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(EtcdReach::connect(options).await?))
}

/// The reach of many machines, by one connection. Clones share the connection. It ends when the
/// last clone, and all that was made with the clones, is dropped.
///
/// The last drop waits until etcd knows of the end, two seconds at most. Otherwise others would
/// have to wait for the end of a lease when a program ends.
#[derive(Clone, Debug)]
pub struct EtcdReach(Arc<Connection>);

impl EtcdReach {
    /// Connects to etcd, and checks that it answers.
    ///
    /// ```no_run
    /// use navlock::{EtcdOptions, EtcdReach};
    /// # use navlock::UserAgent;
    ///
    /// # navlock::blocking::block_on(async {
    /// let reach = EtcdReach::connect(EtcdOptions::new(["10.0.0.1:2379"])).await?;
    /// // Two user agents with one connection: to close one of them leaves the other as it is.
    /// let (first, second) = (UserAgent::with_reach(reach.clone()), UserAgent::with_reach(reach));
    /// # drop((first, second));
    /// # Ok::<(), navlock::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if etcd does not answer, [`Error::Refused`] if the options cannot be
    /// used, or if others use this etcd in the format of another release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, once it is there.
    pub async fn connect(options: EtcdOptions) -> Result<Self, Error> {
        options.check()?;
        let grace = options.grace();
        let shared = Arc::new(Shared::default());
        let (tell, heard) = mpsc::unbounded_channel();
        let (of_thread, weak) = (Arc::clone(&shared), tell.downgrade());
        let serve = async move |connected: oneshot::Sender<Result<Members, Error>>| {
            let checked = async {
                let members = Members::connect(options.clone()).await?;
                formats::look(&members, &options).await?;
                Ok(members)
            };
            match checked.await {
                Ok(members) => {
                    // If the caller is gone, nobody has the connection, and the connection ends.
                    let ours = members.clone();
                    let thread = Thread::new(of_thread, options, members, weak, heard);
                    let _ = connected.send(Ok(ours));
                    thread.run().await;
                }
                Err(error) => {
                    let _ = connected.send(Err(error));
                }
            }
        };
        let (members, thread) = on_a_thread("navlock-etcd", serve).await?;
        Ok(Self(Arc::new(Connection { shared, tell, thread, members, grace })))
    }
}

impl Reach for EtcdReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        let connection = Arc::clone(&self.0);
        let name = name.to_owned();
        let mut table = connection.shared.table();
        let bucket = table.open_bucket(&name);
        // The table is locked, so the message is sent before the bucket is closed again, or
        // forgotten.
        connection.tell(Message::OpenBucket { bucket, name: name.clone() });
        drop(table);
        Box::new(EtcdBackend::new(connection, bucket, name))
    }

    fn is_leased(&self) -> bool {
        true
    }

    fn outage(&self) -> Option<String> {
        let silent = self.0.members.silent()?.as_secs();
        Some(format!(
            "etcd has not answered for {silent} s, and grants nothing meanwhile but names that this \
             machine owns"
        ))
    }

    fn lease(&self) -> Option<Vec<u8>> {
        self.0.shared.table().own_share().map(Share::to_bytes)
    }

    fn grace(&self) -> Duration {
        self.0.grace
    }

    fn revoke(&self, leases: Vec<Vec<u8>>) -> RevokeFuture<'_> {
        let leases = leases.iter().filter_map(|bytes| Share::from_bytes(bytes)).collect();
        let (answer, answered) = oneshot::channel();
        let _ = self.0.tell.send(Order::Revoke(leases, answer));
        Box::pin(async move { answered.await.unwrap_or(false) })
    }

    fn evict(
        &self,
        bucket: &str,
        name: &ResourceName,
        seen: Vec<(ClientId, FencingToken)>,
    ) -> EvictFuture<'_> {
        let held = Held { bucket: bucket.to_owned(), name: name.clone(), seen };
        let (answer, answered) = oneshot::channel();
        let _ = self.0.tell.send(Order::Evict(held, answer));
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(gone(STORE))) })
    }
}
