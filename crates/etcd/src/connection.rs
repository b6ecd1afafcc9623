//! One connection to etcd, as callers use it.

use std::{
    fmt,
    sync::{Arc, mpsc as blocking},
    thread::{self, ThreadId},
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    keeper::{AgentSerial, Message, Shared, wake},
    members::Members,
    table::{Nested, Terminated},
    thread::Order,
};

/// How long the last owner waits, at most, until etcd knows what has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The callers' end of the [thread](crate::thread) that speaks to etcd.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tell: mpsc::UnboundedSender<Order>,
    pub(crate) thread: ThreadId,
    pub(crate) members: Members,
    /// See [`Reach::grace`](navlock_core::host::Reach::grace).
    pub(crate) grace: Duration,
}

impl Connection {
    pub(crate) fn tell(&self, message: Message) {
        // A thread that has ended has said so in the table.
        let _ = self.tell.send(Order::Handle(message));
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
        wake(wakers);
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
        let (told, is_told) = blocking::sync_channel(0);
        let _ = self.tell.send(Order::Quit(told));
        // The thread does not wait for itself: a waker that it calls may have the last share of
        // this connection.
        if thread::current().id() != self.thread {
            // Nothing is sent. The sender is dropped at the end.
            let _ = is_told.recv_timeout(END_TIMEOUT);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("member", &self.members.spoken_to().0)
            .finish_non_exhaustive()
    }
}
