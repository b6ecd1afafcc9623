//! Watches: what becomes of keys, as it happens.

use prost::Message;
use tokio::sync::mpsc;
use tonic::Streaming;

use crate::{
    Client, Error, KeyValue, ResponseHeader,
    kv::Range,
    messages::{WatchCreateRequest, WatchRequest},
};

impl Client {
    /// Watches the key, or those that the options say, from now on. The first answer says that it
    /// was [created](WatchResponse::created), or why it was not.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn watch(
        &mut self,
        key: impl Into<Vec<u8>>,
        options: Option<WatchOptions>,
    ) -> Result<WatchStream, Error> {
        let WatchOptions { range, progress_notify } = options.unwrap_or_default();
        let key = key.into();
        let create = WatchCreateRequest { range_end: range.end(&key), key, progress_notify };
        let first = WatchRequest { create: Some(create) };
        let (open, answers) = self.streaming("/etcdserverpb.Watch/Watch", first).await?;
        Ok(WatchStream { answers, _open: open })
    }
}

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    range: Range,
    progress_notify: bool,
}

impl WatchOptions {
    /// One key.
    pub fn new() -> Self {
        Self::default()
    }

    /// All that begin with the key.
    #[must_use]
    pub fn with_prefix(mut self) -> Self {
        self.range = Range::Prefix;
        self
    }

    /// Has etcd say now and then that there is nothing new.
    #[must_use]
    pub fn with_progress_notify(mut self) -> Self {
        self.progress_notify = true;
        self
    }
}

/// A watch. It ends when this is dropped.
#[derive(Debug)]
pub struct WatchStream {
    answers: Streaming<WatchResponse>,
    /// Etcd would end the watch when this is dropped.
    _open: mpsc::Sender<WatchRequest>,
}

impl WatchStream {
    /// What is told next; `None` when there will be nothing.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn message(&mut self) -> Result<Option<WatchResponse>, Error> {
        Ok(self.answers.message().await?)
    }
}

/// What a watch tells.
#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    created: bool,
    #[prost(bool, tag = "4")]
    canceled: bool,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
}

impl WatchResponse {
    /// At which revision.
    pub const fn header(&self) -> Option<&ResponseHeader> {
        self.header.as_ref()
    }

    /// That the watch begins.
    pub const fn created(&self) -> bool {
        self.created
    }

    /// That the watch has ended.
    pub const fn canceled(&self) -> bool {
        self.canceled
    }

    /// What has happened: whole revisions, in their order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
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
    #[prost(message, optional, tag = "2")]
    kv: Option<KeyValue>,
}

impl Event {
    /// What it is.
    pub const fn event_type(&self) -> EventType {
        match self.kind {
            1 => EventType::Delete,
            _ => EventType::Put,
        }
    }

    /// The key; of one that was deleted, with the revision of that.
    pub const fn kv(&self) -> Option<&KeyValue> {
        self.kv.as_ref()
    }
}
