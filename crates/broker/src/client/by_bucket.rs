//! The connections of one reach to several brokers: each bucket is with the broker that it lives with.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    connect_options::ConnectOptions, connection::Connection, opening::connect_when_needed,
};
use crate::{Place, buckets::Buckets, connect_error::ConnectError};

/// The brokers of the buckets that do not live with the user's own.
#[derive(Debug)]
pub(super) struct ByBucket {
    own: Place,
    buckets: Buckets,
    options: ConnectOptions,
    /// By their sockets. They stay for as long as the reach.
    connections: Mutex<HashMap<PathBuf, Arc<Connection>>>,
}

impl ByBucket {
    pub(super) fn new(own: Place, buckets: Buckets, options: ConnectOptions) -> Self {
        Self { own, buckets, options, connections: Mutex::default() }
    }

    /// The place of the broker that this bucket lives with.
    pub(super) fn place_of(&self, bucket: &str) -> Place {
        self.buckets.place_of(bucket, &self.own)
    }

    /// The connection for this bucket, which is made when it is needed. `None` if it is that of the user's own broker.
    ///
    /// # Errors
    ///
    /// If this process may have no more threads or descriptors.
    pub(super) fn connection(&self, bucket: &str) -> Result<Option<Arc<Connection>>, ConnectError> {
        let place = self.place_of(bucket);
        if place == self.own {
            return Ok(None);
        }
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = connections.get(place.socket()) {
            return Ok(Some(Arc::clone(connection)));
        }
        let options = self.options.clone().place(place.clone());
        let connection = Arc::new(connect_when_needed(place.clone(), options)?);
        connections.insert(place.socket().to_owned(), Arc::clone(&connection));
        Ok(Some(connection))
    }
}
