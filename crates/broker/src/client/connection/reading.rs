//! Which thread reads the socket: one that waits for an answer, or the maintainer.

use std::{
    sync::{PoisonError, atomic::Ordering::Relaxed},
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use navlock_core::blocking::Source;

use super::{
    super::reader::{End, Reader, wait, wake},
    OUTAGE_TOLD_AFTER, Shared,
};
use crate::{
    clock,
    connect_error::{ConnectError, Reason},
};

/// How long another thread may take to read what has come.
const MOMENT: Duration = Duration::from_millis(500);

/// For how many nanoseconds after somebody has asked for a lock the threads of this process are taken to have
/// run, and to have read what was sent.
const RUNS: u64 = 50_000_000;

/// How often the start of a thread is tried again, while somebody waits for the connection that the
/// thread has to make.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The outcome of a try to read.
enum ReadOutcome {
    /// Another thread has the reader, or there is no connection.
    Elsewhere,
    Nothing,
    Word,
    End,
}

impl Shared {
    /// Calls `ready`, then reads what has come, and wakes everybody concerned.
    fn read_available(&self, ready: impl FnOnce(&mut Reader)) -> ReadOutcome {
        let mut wakers = Vec::new();
        let outcome = self.read_quietly(ready, &mut wakers);
        wake(wakers);
        outcome
    }

    /// Calls `ready`, then reads what has come. Adds the wakers to call to `wakers`.
    fn read_quietly(
        &self,
        ready: impl FnOnce(&mut Reader),
        wakers: &mut Vec<Waker>,
    ) -> ReadOutcome {
        let Some(mut slot) = self.try_reader() else {
            self.turns.want();
            return ReadOutcome::Elsewhere;
        };
        let Some(reader) = &mut *slot else {
            return ReadOutcome::Elsewhere;
        };
        self.turns.take();
        ready(reader);
        let heard = self.reads.read(reader, |message| self.table().handle_message(message, wakers));
        let is_to_register = reader.was_asked_to_register();
        let is_over = match &heard {
            Ok(_) => false,
            // The maintainer notices the end as well, when it has a thread. Without one, the end must
            // be noted here, so that nobody believes that a daemon still watches over the locks.
            Err(End::Closed) => self.thread.is_missing(),
            // A maintainer that has a thread finds this by itself.
            Err(End::Unusable(_)) => self.keep().is_err(),
        };
        if is_over {
            // This thread still has the reader, so it ends no later connection.
            self.disconnect(&mut slot);
        }
        drop(slot);
        if is_to_register {
            self.register_again(wakers);
        }
        // This thread may not read again for a while. It may also have read a term, for which the
        // maintainer must set its clock anew.
        let has_terms = || self.table().earliest_term().is_some();
        if self.turns.wake_if_asleep() || self.thread.is_missing() && has_terms() {
            self.wake_maintainer();
        }
        match heard {
            Ok(true) => ReadOutcome::Word,
            Ok(false) => ReadOutcome::Nothing,
            Err(_) => {
                self.wake_maintainer();
                ReadOutcome::End
            }
        }
    }

    /// Reads what has come already, even if another thread is about to read it.
    pub(in super::super) fn read_all(&self) {
        let mut wakers = Vec::new();
        self.read_all_quietly(&mut wakers);
        wake(wakers);
    }

    /// Reads what was sent while this process was stopped, if it may have been. To be called before it is said
    /// of a lock that it is held: the thread that reads the connection may not have run since.
    #[inline]
    pub(in super::super) fn hear_if_late(&self) {
        let now = clock::recently();
        if now.saturating_sub(self.asked_at.load(Relaxed)) <= RUNS {
            self.asked_at.store(now, Relaxed);
        } else if !self.is_forked() {
            self.hear();
        }
    }

    #[cold]
    fn hear(&self) {
        // A thread that comes here while another one reads must not answer from what was known before.
        let hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_heard = clock::recently().saturating_sub(self.asked_at.load(Relaxed)) <= RUNS;
        let mut wakers = Vec::new();
        if !is_heard {
            self.read_all_quietly(&mut wakers);
            if self.has_hung_up() {
                self.lose_if_given_up(&mut wakers);
            }
            self.asked_at.store(clock::recently(), Relaxed);
        }
        drop(hearing);
        // Wakers are the caller's code, which may come back here.
        wake(wakers);
    }

    fn read_all_quietly(&self, wakers: &mut Vec<Waker>) {
        if self.is_forked() {
            return;
        }
        let deadline = Instant::now() + MOMENT;
        let before = self.reads.begun();
        loop {
            match self.read_quietly(|_| {}, wakers) {
                ReadOutcome::Word => {}
                ReadOutcome::Nothing | ReadOutcome::End => return,
                ReadOutcome::Elsewhere => {
                    let is_read = self.reads.have_emptied_since(before);
                    let is_connected = self.writer().socket.is_some();
                    if is_read || !is_connected || Instant::now() >= deadline {
                        return;
                    }
                    // The thread that has the reader reads what there is. It may have the reader again before
                    // this thread has a CPU.
                    self.wake_maintainer();
                    self.interrupt.wake();
                    thread::yield_now();
                }
            }
        }
    }

    /// Reads what has come already, if no thread reads the connection.
    pub(super) fn read_without_thread(&self) {
        if self.is_forked() || !self.thread.is_missing() {
            return;
        }
        let is_waiting = self.table().is_waiting();
        let mut is_word = false;
        while matches!(self.read_available(|_| {}), ReadOutcome::Word) {
            is_word = true;
        }
        // Another thread has looked before this one has read, and may be waiting for what was read
        // here.
        if is_word && !is_waiting {
            self.wake_maintainer();
        }
    }

    /// Waits a moment for the maintainer to have a thread, because no answer comes without one.
    /// Returns whether it still has none. If there is none for as long as requests wait for a daemon,
    /// the requests fail.
    pub(super) fn wait_for_thread(&self, deadline: Option<Instant>) -> bool {
        let Err(error) = self.try_keep() else { return false };
        self.end_given_up();
        let lacked = self.table().needed_since().map(clock::since);
        if lacked.is_some_and(|lacked| lacked >= OUTAGE_TOLD_AFTER) {
            let reason = Reason::Io("starting a thread", error.into());
            let error = ConnectError { socket: self.path.clone(), reason };
            self.give_up(&error.into(), false);
            return true;
        }
        let retry = Instant::now() + RETRY_PAUSE;
        let until = deadline.map_or(retry, |deadline| deadline.min(retry));
        wait(None, false, self.interrupt.end(), Some(until));
        true
    }
}

impl Source for Shared {
    fn wait(&self, deadline: Option<Instant>, is_woken: &dyn Fn() -> bool) -> bool {
        if self.is_forked() {
            return false;
        }
        let heard = self.read_available(|reader| {
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
            self.wake_maintainer();
        }
    }
}
