//! A reach between machines, by one connection to a store.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, mpsc as blocking},
    thread,
    time::Duration,
};

use navlock_core::{
    ClientId, Error, FencingToken, ResourceName,
    host::{Backend, EvictFuture, Reach, RevokeFuture},
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    backend::MachinesBackend,
    connection::Connection,
    driver::Driver,
    failure::{failed, gone},
    key_store::{KeyStore, Link},
    lease::Share,
    messages::Message,
    shared::Shared,
    thread::{runtime, serve},
};

/// The reach of many machines, by one connection. Clones share the connection. It ends when the
/// last clone, and all that was made with the clones, is dropped.
///
/// The last drop waits until the store knows of the end, two seconds at most. Otherwise others would
/// have to wait for the end of a lease when a program ends.
pub struct MachinesReach<K> {
    connection: Arc<Connection>,
    store: PhantomData<fn() -> K>,
}

impl<K: KeyStore> MachinesReach<K> {
    /// Connects to the store, and checks that it answers. The connection has a thread of its own, and works with any
    /// executor.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if the store does not answer, [`Error::Refused`] if the options cannot be
    /// used, or if others use this store in the format of another release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, once it is there.
    pub async fn connect(options: K::Options) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(K::NAME));
        let (tell, heard) = mpsc::unbounded_channel();
        let (answer, answered) = oneshot::channel();
        let (until, ended) = blocking::sync_channel::<()>(0);
        let of_thread = Arc::clone(&shared);
        let run = move || match runtime(K::NAME) {
            Ok(runtime) => {
                runtime.block_on(async {
                    match K::connect(options).await {
                        Ok((store, options)) => {
                            let link: Box<dyn Link> = Box::new(store.clone());
                            let grace = options.times.grace();
                            let driver = Driver::new(store, options, of_thread);
                            // If the caller is gone, nobody has the connection, and the connection ends.
                            let _ = answer.send(Ok((link, grace)));
                            serve(driver, heard).await;
                            drop(until);
                        }
                        Err(error) => drop(answer.send(Err(error))),
                    }
                });
                // Nobody needs the tasks that are left on this runtime.
                runtime.shutdown_background();
            }
            // If the caller is gone, nobody receives this.
            Err(error) => drop(answer.send(Err(error))),
        };
        let thread = thread::Builder::new().name(format!("navlock-{}", K::NAME)).spawn(run);
        let thread = thread.map_err(|error| failed(K::NAME, "a thread", error))?.thread().id();
        let (link, grace) = answered.await.unwrap_or_else(|_| Err(gone(K::NAME)))?;
        let (store, longest_name) = (K::NAME, K::LONGEST_NAME);
        let (tell, ended) = (Some(tell), Mutex::new(ended));
        let connection =
            Connection { store, longest_name, shared, tell, thread, ended, link, grace };
        Ok(Self { connection: Arc::new(connection), store: PhantomData })
    }
}

impl<K: KeyStore> Reach for MachinesReach<K> {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        let connection = Arc::clone(&self.connection);
        let name = name.to_owned();
        let mut table = connection.shared.table();
        let bucket = table.open_bucket(&name);
        // The table is locked, so the message is sent before the bucket is closed again, or
        // forgotten.
        connection.tell(Message::OpenBucket { bucket, name: name.clone() });
        drop(table);
        Box::new(MachinesBackend::new(connection, bucket))
    }

    fn is_leased(&self) -> bool {
        true
    }

    fn outage(&self) -> Option<String> {
        let silent = self.connection.link.silent()?.as_secs();
        let store = K::NAME;
        Some(format!(
            "{store} has not answered for {silent} s, and grants nothing meanwhile but names that this \
             machine owns"
        ))
    }

    fn lease(&self) -> Option<Vec<u8>> {
        self.connection.shared.table().own_share.map(Share::to_bytes)
    }

    fn grace(&self) -> Duration {
        self.connection.grace
    }

    fn revoke(&self, leases: Vec<Vec<u8>>) -> RevokeFuture<'_> {
        let left = leases.iter().filter_map(|bytes| Share::from_bytes(bytes)).collect();
        let answered = self.connection.ask(|answer| Message::Revoke { left, answer });
        Box::pin(async move { answered.await.unwrap_or(false) })
    }

    fn evict(
        &self,
        bucket: &str,
        name: &ResourceName,
        seen: Vec<(ClientId, FencingToken)>,
    ) -> EvictFuture<'_> {
        let (bucket, name) = (bucket.to_owned(), name.clone());
        let answered = self.connection.ask(|answer| Message::Evict { bucket, name, seen, answer });
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(gone(K::NAME))) })
    }
}

impl<K> Clone for MachinesReach<K> {
    fn clone(&self) -> Self {
        Self { connection: Arc::clone(&self.connection), store: PhantomData }
    }
}

impl<K> fmt::Debug for MachinesReach<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.fmt(f)
    }
}
