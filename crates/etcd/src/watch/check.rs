//! Whether the stream of watches hangs while all else goes well.
//!
//! Nothing else would show it: a watch of names to which nothing happens is silent as well.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use futures_util::FutureExt;
use navlock_etcd_client::{WatchAsk, WatchAsks, WatchCreateRequest};
use tokio::{
    sync::Notify,
    time::{self, sleep},
};

use crate::members::{Member, Members};

/// The id of the watch by which a stream is checked. No name has it.
pub(super) const CHECK: i64 = i64::MAX;

/// Checks the stream now and then: etcd is asked for a watch of keys that never are, which ends at once.
pub(crate) struct Check {
    /// The prefix of keys that never are.
    nothing: Vec<u8>,
    /// The time between two checks.
    pause: Duration,
    answered: Notify,
    is_proxied: AtomicBool,
}

impl Check {
    pub(crate) fn new(nothing: Vec<u8>, pause: Duration) -> Self {
        Self { nothing, pause, answered: Notify::new(), is_proxied: AtomicBool::new(false) }
    }

    /// Notes that the stream has answered.
    pub(super) fn note_answer(&self) {
        self.answered.notify_one();
    }

    /// Notes whether the stream leads to etcd's own proxy, which does not let us name watches.
    pub(super) fn note_proxied(&self, is_so: bool) {
        self.is_proxied.store(is_so, Relaxed);
    }

    pub(super) fn is_proxied(&self) -> bool {
        self.is_proxied.load(Relaxed)
    }

    /// Waits until the stream hangs: its member answers another question, and has not answered what it was
    /// asked by the stream before.
    pub(super) async fn until_hung(
        &self,
        members: &Members,
        member: &Member,
        asks: &WatchAsks,
        timeout: Duration,
    ) {
        loop {
            sleep(self.pause).await;
            if self.is_proxied() {
                continue;
            }
            let _ = self.answered.notified().now_or_never();
            let check =
                WatchCreateRequest { id: CHECK, ..WatchCreateRequest::prefix(&*self.nothing) };
            // If the stream has ended, that is told by the stream.
            let asked = asks.ask(WatchAsk::watch(check));
            let mut answered = pin!(asked.then(|_| self.answered.notified()));
            while time::timeout(timeout, &mut answered).await.is_err() {
                // A slow member answers everything late.
                let is_there = members.first_key(member).await.is_ok();
                match answered.as_mut().now_or_never() {
                    Some(()) => break,
                    None if is_there => return,
                    None => {}
                }
            }
        }
    }
}
