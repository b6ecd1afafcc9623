//! Waking a session for one of its requests.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Wake,
};

use crate::sync::lock;
use futures_util::task::AtomicWaker;
use navlock_engine::RequestId;

/// The ids of the requests that the session is to poll, and the waker of the session.
#[derive(Default)]
pub(super) struct Woken {
    pub(super) ids: Mutex<VecDeque<RequestId>>,
    pub(super) session: AtomicWaker,
}

/// Wakes the session for one request. There is one for each request and lock: so the id stands in parts, without
/// padding.
pub(super) struct RequestWaker {
    index: u32,
    /// Whether the id is in the list already.
    pub(super) is_listed: AtomicBool,
    serial: u64,
    woken: Arc<Woken>,
}

impl RequestWaker {
    pub(super) fn new(id: RequestId, woken: &Arc<Woken>) -> Arc<Self> {
        let (index, serial) = id.to_parts();
        Arc::new(Self {
            index,
            is_listed: AtomicBool::new(false),
            serial,
            woken: Arc::clone(woken),
        })
    }
}

impl Wake for RequestWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_listed.swap(true, Ordering::SeqCst) {
            lock(&self.woken.ids).push_back(RequestId::from_parts(self.index, self.serial));
            self.woken.session.wake();
        }
    }
}
