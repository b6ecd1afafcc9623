//! The thread that looks: whatever the broker is at, keys are heard.

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

/// So many messages wait at most. Then the broker is not listened to, and says how much was missed.
const MOST: usize = 256;

/// How long it takes at most until it is seen that nobody listens any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a thread has to say, and a descriptor that tells when.
pub(super) struct Messages<T> {
    messages: Receiver<T>,
    bell: Stream,
}

/// The other end.
pub(super) struct Sender<T> {
    messages: SyncSender<T>,
    bell: Stream,
}

impl<T> Messages<T> {
    pub(super) fn channel() -> io::Result<(Sender<T>, Self)> {
        let (ours, theirs) = Stream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let (sender, messages) = sync_channel(MOST);
        Ok((Sender { messages: sender, bell: theirs }, Self { messages, bell: ours }))
    }

    /// Readable when there is a message.
    pub(super) fn descriptor(&self) -> BorrowedSource<'_> {
        self.bell.source()
    }

    /// From now on it is readable for messages that come later.
    pub(super) fn quiet(&mut self) {
        let mut bytes = [0; 1024];
        while self.bell.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
    }

    /// The next one, if there is one.
    pub(super) fn next(&self) -> Option<T> {
        self.messages.try_recv().ok()
    }
}

impl<T> Sender<T> {
    /// Whether there is still somebody who listens.
    pub(super) fn send(&self, message: T) -> bool {
        let is_heard = self.messages.send(message).is_ok();
        // If it has no room, it rings already.
        let _ = (&self.bell).write(&[0]);
        is_heard
    }
}

/// Looks, for as long as anybody listens.
pub(super) fn look(place: Place, sender: Sender<Heard>) -> io::Result<()> {
    let thread = thread::Builder::new().name("navlock-look".to_owned());
    thread.spawn(move || {
        // Nobody who locks is to wait for it.
        navlock_broker::stand_back();
        let mut look = Look::new(place, LookOptions::default());
        loop {
            let heard = match look.next(Some(PATIENCE)) {
                Ok(Some(News::Anew { missed })) => {
                    let overview = Box::new(look.overview().clone());
                    Heard::Anew { overview, missed, namespace: look.pid_namespace() }
                }
                Ok(Some(News::Events(events))) => Heard::Events(events),
                Ok(Some(News::NoBroker)) => Heard::NoBroker,
                // Nobody is told of nothing, unless they may have gone.
                Ok(_) => Heard::Events(Vec::new()),
                Err(error) => Heard::Failed(error.to_string()),
            };
            let has_failed = matches!(heard, Heard::Failed(_));
            if !sender.send(heard) {
                return;
            }
            if has_failed {
                thread::sleep(PATIENCE);
            }
        }
    })?;
    Ok(())
}
