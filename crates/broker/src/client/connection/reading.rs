//! Which thread reads the socket: one that waits for an answer, or the maintainer.

use std::{
    thread,
    time::{Duration, Instant},
};

use navlock_core::{Error, blocking::Source};

use super::{
    super::reader::{End, Reader, wait, wake},
    RETURN, Shared,
};
use crate::{
    clock,
    connect_error::{ConnectError, Reason},
};

/// How long it may take another thread to hear what has been said.
const MOMENT: Duration = Duration::from_millis(500);

/// How often it is tried again to have a thread, while somebody waits for the connection that it is to
/// make.
const LOOK_FOR_THREAD: Duration = Duration::from_millis(200);

/// What became of hearing what there was.
enum ReadOutcome {
    /// Another thread is at it, or there is no connection.
    Elsewhere,
    Nothing,
    Word,
    End,
}

impl Shared {
    /// Hears what there is once it is `ready`, and wakes whom it concerns.
    fn hear(&self, ready: impl FnOnce(&mut Reader)) -> ReadOutcome {
        let Some(mut slot) = self.try_reader() else {
            self.turns.want();
            return ReadOutcome::Elsewhere;
        };
        let Some(reader) = &mut *slot else {
            return ReadOutcome::Elsewhere;
        };
        self.turns.take();
        ready(reader);
        let mut is_word = false;
        let heard = reader.hear(|message, wakers| {
            is_word = true;
            self.table().handle_message(message, wakers);
        });
        let is_to_register = reader.was_asked_to_register();
        let is_over = match &heard {
            Ok(_) => false,
            // The maintainer hears it as well, once it has a thread. Until then nobody must take what is
            // held for what a daemon watches over.
            Err(End::Closed) => self.thread.is_missing(),
            // That there was nonsense it is to hear itself, if it can.
            Err(End::Nonsense(_)) => self.keep().is_err(),
        };
        if is_over {
            // While we have the reader, so that it is no later connection that ends.
            self.disconnect(&mut slot);
        }
        drop(slot);
        if is_to_register {
            self.register_again();
        }
        // What this thread does next may take long, and it does not hear meanwhile. And what it has
        // heard may be a term, by which the maintainer must look again.
        let has_terms = || self.table().earliest_term().is_some();
        if self.turns.wake_if_asleep() || self.thread.is_missing() && has_terms() {
            self.nudge();
        }
        let Ok(wakers) = heard else {
            self.nudge();
            return ReadOutcome::End;
        };
        wake(wakers);
        if is_word { ReadOutcome::Word } else { ReadOutcome::Nothing }
    }

    /// Hears what has been said already, also if another thread is about to.
    pub(in super::super) fn hear_all(&self) {
        if self.is_forked() {
            return;
        }
        let deadline = Instant::now() + MOMENT;
        loop {
            match self.hear(|_| {}) {
                ReadOutcome::Word => {}
                ReadOutcome::Nothing | ReadOutcome::End => return,
                ReadOutcome::Elsewhere => {
                    let is_connected = self.writer().socket.is_some();
                    if !is_connected || Instant::now() >= deadline {
                        return;
                    }
                    // Whoever has the reader hears what there is, and lets go of it.
                    self.nudge();
                    self.interrupt.wake();
                    thread::yield_now();
                }
            }
        }
    }

    /// Hears what has been said already, if there is no thread that does.
    pub(super) fn read_without_thread(&self) {
        if self.is_forked() || !self.thread.is_missing() {
            return;
        }
        let is_waiting = self.table().is_waiting();
        let mut is_word = false;
        while matches!(self.hear(|_| {}), ReadOutcome::Word) {
            is_word = true;
        }
        // Whoever has looked before does not know of it, and waits for what is heard already.
        if is_word && !is_waiting {
            self.nudge();
        }
    }

    /// Waits for a moment for what keeps the connection to have a thread, without which there is never
    /// an answer. Whether there is none yet: whoever has waited as long for it as for a daemon is told.
    pub(super) fn wait_for_thread(&self, deadline: Option<Instant>) -> bool {
        let Err(error) = self.try_keep() else { return false };
        self.end_given_up();
        let lacked = self.table().needed_since().map(clock::since);
        if lacked.is_some_and(|lacked| lacked >= RETURN) {
            let reason = Reason::Io("starting a thread", error.into());
            let why = ConnectError { socket: self.path.clone(), reason }.to_string();
            self.give_up(&Error::Unreachable(why));
            return true;
        }
        let look = Instant::now() + LOOK_FOR_THREAD;
        let until = deadline.map_or(look, |deadline| deadline.min(look));
        wait(None, false, self.interrupt.end(), Some(until));
        true
    }
}

impl Source for Shared {
    fn wait(&self, deadline: Option<Instant>, is_woken: &dyn Fn() -> bool) -> bool {
        if self.is_forked() {
            return false;
        }
        let heard = self.hear(|reader| {
            if !reader.has_more() && !is_woken() {
                reader.wait(self.interrupt.end(), deadline);
            }
        });
        match heard {
            ReadOutcome::Nothing | ReadOutcome::Word => true,
            ReadOutcome::Elsewhere | ReadOutcome::End if self.thread.is_refused() => {
                is_woken() || self.wait_for_thread(deadline)
            }
            ReadOutcome::Elsewhere | ReadOutcome::End => false,
        }
    }

    fn interrupt(&self) {
        if !self.is_forked() {
            self.interrupt.wake();
        }
    }

    fn leave(&self) {
        if !self.is_forked() && self.table().is_waiting() {
            self.nudge();
        }
    }
}
