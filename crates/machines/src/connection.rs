//! One connection to a store, as callers use it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, mpsc as blocking},
    thread::{self, ThreadId},
    time::Duration,
};

use navlock_core::host::wake_all;
use tokio::sync::{mpsc, oneshot};

use crate::{
    key_store::Link,
    messages::Message,
    shared::Shared,
    table::{AgentSerial, Nested, Terminated},
    thread::END_TIMEOUT,
};

/// The callers' end of the [thread](crate::thread) that speaks to the store.
pub(crate) struct Connection {
    /// What the store is called.
    pub(crate) store: &'static str,
    /// See [`KeyStore::LONGEST_NAME`](crate::key_store::KeyStore::LONGEST_NAME).
    pub(crate) longest_name: usize,
    pub(crate) shared: Arc<Shared>,
    /// `None` once the connection ends.
    pub(crate) tell: Option<mpsc::UnboundedSender<Message>>,
    pub(crate) thread: ThreadId,
    /// The thread has the sender until it ends.
    pub(crate) ended: Mutex<blocking::Receiver<()>>,
    pub(crate) link: Box<dyn Link>,
    /// See [`Reach::grace`](navlock_core::host::Reach::grace).
    pub(crate) grace: Duration,
}

impl Connection {
    pub(crate) fn tell(&self, message: Message) {
        // A thread that has ended has said so in the table.
        if let Some(tell) = &self.tell {
            let _ = tell.send(message);
        }
    }

    /// Tells the thread something that has an answer.
    pub(crate) fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> Message,
    ) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        self.tell(message(answer));
        answered
    }

    /// Tells the thread that an agent has ended, with these locks and requests.
    pub(crate) fn end_agent(&self, serial: Option<AgentSerial>, terminated: Terminated) {
        let Terminated { wakers, ended, over } = terminated;
        if let Some(serial) = serial {
            self.tell(Message::EndAgent { serial, ended });
        }
        for (bucket, name) in over {
            self.tell(Message::Leave { bucket, name });
        }
        wake_all(wakers);
    }

    /// Lets others know inside which locks a waiting request was made.
    pub(crate) fn nest(&self, Nested { said, hidden }: Nested) {
        for (bucket, name) in hidden {
            self.tell(Message::Leave { bucket, name });
        }
        if let Some(serial) = said {
            self.tell(Message::Nested { serial });
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The thread hears of nobody any more.
        self.tell = None;
        // The thread does not wait for itself: a waker that it calls may have the last share of
        // this connection.
        if thread::current().id() != self.thread {
            // Nothing is sent. The sender is dropped at the end.
            let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(END_TIMEOUT);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("link", &self.link).finish_non_exhaustive()
    }
}
