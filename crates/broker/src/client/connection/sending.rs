//! Who sends what is on its way to the daemon, and who waits for that.

use std::{
    sync::{MutexGuard, PoisonError, atomic::Ordering::SeqCst},
    time::{Duration, Instant},
};

use navlock_platform::wait::{Interest, Source, wait};

use super::{
    super::client_table::ClientTable,
    Shared,
    writer::{Writer, keeps},
};

/// How long is waited for a daemon that does not read.
const PATIENCE: Duration = Duration::from_secs(1);

impl Shared {
    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps messages back until somebody waits for an answer, or something ends.
    pub(in super::super) fn hold_back(&self) {
        self.holds_back.store(true, SeqCst);
    }

    pub(super) fn hold_back_no_more(&self) {
        if self.holds_back.load(SeqCst) {
            let mut writer = self.writer();
            self.holds_back.store(false, SeqCst);
            self.send(&mut writer, self.table());
            let is_left = !writer.bytes.is_empty();
            drop(writer);
            if is_left {
                self.wake_maintainer();
            }
        }
    }

    /// Changes the table, and sends the messages that result. Never waits.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut ClientTable) -> T) -> T {
        self.change_and_send(change).0
    }

    /// Changes the table so that something ends, and returns when the messages that result are in the socket.
    /// From then on, whoever asks the daemon comes after them. If the daemon does not read, they are waited
    /// for once, and no longer than a second.
    pub(super) fn end<T>(&self, change: impl FnOnce(&mut ClientTable) -> T) -> T {
        if !self.is_forked() {
            self.hold_back_no_more();
        }
        let (changed, left) = self.change_and_send(change);
        if let Some(writer) = left.filter(|_| !keeps()) {
            self.wait_until_sent(writer);
        }
        changed
    }

    /// Changes the table, and sends the messages that result. Returns the writer if something is left.
    fn change_and_send<T>(
        &self,
        change: impl FnOnce(&mut ClientTable) -> T,
    ) -> (T, Option<MutexGuard<'_, Writer>>) {
        if self.is_forked() {
            return (change(&mut self.table()), None);
        }
        let mut writer = self.writer();
        let mut table = self.table();
        let changed = change(&mut table);
        self.send(&mut writer, table);
        let is_left = !writer.bytes.is_empty();
        (changed, is_left.then_some(writer))
    }

    /// Waits until what is left now is sent, or the connection has ended. Other threads send meanwhile, and
    /// the writer is locked only while this thread sends.
    #[cold]
    fn wait_until_sent<'a>(&'a self, mut writer: MutexGuard<'a, Writer>) {
        let deadline = Instant::now() + PATIENCE;
        let (gone, wanted) = (writer.gone, writer.bytes.len());
        let is_sent = |writer: &Writer| writer.gone.wrapping_sub(gone) >= wanted;
        while !is_sent(&writer) && !writer.is_vain {
            let Some(socket) = writer.socket.clone() else { return };
            drop(writer);
            let left = deadline.saturating_duration_since(Instant::now());
            // Whatever comes of it, what is sent says how it is.
            let _ = wait([(socket.source(), Interest::WRITE)], Some(left));
            writer = self.writer();
            writer.send();
            writer.is_vain |= left.is_zero() && !is_sent(&writer);
        }
    }

    /// Sends the messages of the table. They are taken while the table is locked. So messages that other
    /// threads add to the table meanwhile come later.
    pub(super) fn send(&self, writer: &mut Writer, mut table: MutexGuard<'_, ClientTable>) {
        let was_left = !writer.bytes.is_empty();
        writer.take(&mut table.outgoing);
        if self.holds_back.load(SeqCst) {
            return;
        }
        let is_needed = writer.socket.is_none() && table.needs_link() || table.has_map_task();
        drop(table);
        let is_left = !writer.send();
        if is_left && !was_left || is_needed {
            self.wake_maintainer();
        }
    }

    /// Sends the messages that were left. Returns whether all of them are sent.
    pub(in super::super) fn send_left(&self) -> bool {
        self.writer().send()
    }
}
