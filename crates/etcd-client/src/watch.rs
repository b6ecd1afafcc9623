//! Watches: what becomes of keys, as it happens.

use prost::Message;
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::{
    Client, Error, KeyValue, ResponseHeader,
    messages::{WatchCancelRequest, WatchCreateRequest, WatchRequest},
};

impl Client {
    /// Watches these keys. The first answer says that it was
    /// [created](WatchResponse::created), or why it was not. More can be watched by the same stream.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn watch(&mut self, create: WatchCreateRequest) -> Result<WatchStream, Error> {
        let first = WatchAsk::watch(create).0;
        let (ask, answers) = self.streaming("/etcdserverpb.Watch/Watch", first).await?;
        Ok(WatchStream { answers, asks: WatchAsks(ask) })
    }
}

/// Watches. They end when this and all its [asks](Self::asks) are dropped.
#[derive(Debug)]
pub struct WatchStream {
    answers: Streaming<WatchResponse>,
    /// Etcd would end the watches if nobody had this any more.
    asks: WatchAsks,
}

/// A handle by which a stream's watches are added and ended.
#[derive(Clone, Debug)]
pub struct WatchAsks(mpsc::Sender<WatchRequest>);

/// Something to be asked of a [`WatchStream`].
#[derive(Clone, Debug)]
pub struct WatchAsk(WatchRequest);

impl WatchAsk {
    /// Watches these keys as well.
    pub const fn watch(create: WatchCreateRequest) -> Self {
        Self(WatchRequest { create: Some(create), cancel: None })
    }

    /// Ends the watch with this id. Etcd answers that it is [canceled](WatchResponse::canceled).
    pub const fn cancel(id: i64) -> Self {
        Self(WatchRequest { create: None, cancel: Some(WatchCancelRequest { id }) })
    }
}

impl WatchAsks {
    /// Asks, once there is room for it. Etcd makes room for as long as its answers are taken, so this
    /// is to be awaited beside [`WatchStream::message`].
    ///
    /// # Errors
    ///
    /// That the stream has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing was asked if this is dropped before it is ready.
    pub async fn ask(&self, ask: WatchAsk) -> Result<(), Error> {
        self.0.send(ask.0).await.map_err(|_| Error::Closed)
    }
}

impl WatchStream {
    /// The way to watch more, and less.
    pub fn asks(&self) -> WatchAsks {
        self.asks.clone()
    }

    /// The next message; `None` when the stream has ended.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed if this is dropped before it is ready.
    pub async fn message(&mut self) -> Result<Option<WatchResponse>, Error> {
        Ok(self.answers.message().await?)
    }
}

/// What a watch tells.
#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    /// At which revision.
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    /// The id of the watch that this message belongs to.
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    /// Whether this says that the watch has begun.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// Whether this says that the watch has ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// What has happened: whole revisions, in their order.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// What has become of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    /// It was written.
    Put,
    /// It was deleted.
    Delete,
}

/// What has become of a key.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(int32, tag = "1")]
    kind: i32,
    /// The key; of one that was deleted, with the revision of that.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

impl Event {
    /// What it is.
    pub const fn event_type(&self) -> EventType {
        match self.kind {
            1 => EventType::Delete,
            _ => EventType::Put,
        }
    }
}
