//! The thread that listens to the broker. So keys are read even if the broker does not answer.

use std::{
    io::{self, Read, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use navlock::{Look, LookOptions, News, Place};
use navlock_platform::{
    socket::Stream,
    wait::{BorrowedSource, Source},
};

use super::data::Heard;

/// How many messages wait at most. If there are more, the thread does not listen to the broker,
/// which later says how many events were missed.
const MOST: usize = 256;

/// How often the thread checks whether anybody still receives its messages, and how long it pauses after
/// a failure.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The messages of a thread, and a descriptor that tells when there are messages.
pub(super) struct Messages<T> {
    messages: Receiver<T>,
    wake_end: Stream,
}

/// The thread's end.
pub(super) struct Sender<T> {
    messages: SyncSender<T>,
    waking_end: Stream,
}

impl<T> Messages<T> {
    pub(super) fn channel() -> io::Result<(Sender<T>, Self)> {
        let (ours, theirs) = Stream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let (sender, messages) = sync_channel(MOST);
        Ok((Sender { messages: sender, waking_end: theirs }, Self { messages, wake_end: ours }))
    }

    /// Readable when there is a message.
    pub(super) fn descriptor(&self) -> BorrowedSource<'_> {
        self.wake_end.source()
    }

    /// From now on, only later messages make the descriptor readable.
    pub(super) fn quiet(&mut self) {
        let mut bytes = [0; 1024];
        while self.wake_end.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
    }

    /// The next message, if there is one.
    pub(super) fn next(&self) -> Option<T> {
        self.messages.try_recv().ok()
    }
}

impl<T> Sender<T> {
    /// Sends a message. Returns whether anybody still receives messages.
    pub(super) fn send(&self, message: T) -> bool {
        let is_heard = self.messages.send(message).is_ok();
        // If the stream has no room, the other end is readable already.
        let _ = (&self.waking_end).write(&[0]);
        is_heard
    }
}

/// Listens to the broker, as long as anybody receives the messages.
pub(super) fn look(place: Place, sender: Sender<Heard>) -> io::Result<()> {
    let thread = thread::Builder::new().name("navlock-look".to_owned());
    thread.spawn(move || {
        // No lock should have to wait for this process.
        navlock_broker::lower_thread_priority();
        let mut look = Look::new(place, LookOptions::default());
        loop {
            let heard = match look.next(Some(CHECK_INTERVAL)) {
                Ok(Some(News::Anew { missed })) => {
                    let overview = Box::new(look.overview().clone());
                    Heard::Anew { overview, missed, namespace: look.pid_namespace() }
                }
                Ok(Some(News::Events(events))) => Heard::Events(events),
                Ok(Some(News::NoBroker)) => Heard::NoBroker,
                // An empty message is sent only to find out whether the receiver has gone.
                Ok(_) => Heard::Events(Vec::new()),
                Err(error) => Heard::Failed(error.to_string()),
            };
            let has_failed = matches!(heard, Heard::Failed(_));
            if !sender.send(heard) {
                return;
            }
            if has_failed {
                thread::sleep(CHECK_INTERVAL);
            }
        }
    })?;
    Ok(())
}
