//! The reach and its buckets.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use js_sys::Array;
use navlock_core::{
    ClientId, Error, LockInfo, LockManagerSnapshot, Lost, Mode, ResourceName, UserAgent,
    host::{
        AgentId, Answer, Backend, QueryFuture, Reach, RequestDetails, RequestKind, Ticket, wake_all,
    },
};
use wasm_bindgen::prelude::*;

use crate::{names, native, page};

/// A user agent whose locks are those of the page's origin: all its pages and workers share them, whatever
/// language they are written in.
///
/// In the bucket `""` a lock has the name that it has in JavaScript.
///
/// ```no_run
/// # async fn example() -> Result<(), navlock_core::Error> {
/// let locks = navlock_browser::browser()?.lock_manager("");
/// // As `navigator.locks.request('db', …)` does.
/// let guard = locks.lock("db").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Refused`] where there is no `navigator.locks`, as in a page that came by http, or
/// outside of a browser.
pub fn browser() -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(BrowserReach::open()?))
}

/// The reach of a browser: one origin.
#[derive(Clone, Debug)]
pub struct BrowserReach(());

/// The locks of one bucket: the locks of the origin whose names spell this bucket.
#[derive(Debug)]
struct BrowserBackend {
    bucket: Arc<str>,
}

/// A question to the browser.
struct Asked {
    serial: u64,
    bucket: Arc<str>,
}

impl BrowserReach {
    /// The reach of the page or worker that this runs in.
    ///
    /// # Errors
    ///
    /// As [`browser`].
    pub fn open() -> Result<Self, Error> {
        if !cfg!(all(target_arch = "wasm32", target_os = "unknown")) {
            return Err(Error::refused("there are browser's locks in a browser alone"));
        }
        page::check()?;
        Ok(Self(()))
    }
}

impl Reach for BrowserReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(BrowserBackend { bucket: name.into() })
    }
}

impl Backend for BrowserBackend {
    fn open_agent(&self, _client_id: ClientId) -> AgentId {
        page::open_agent()
    }

    fn close_agent(&self, agent: AgentId) {
        self.terminate(agent);
        page::close_agent(agent);
    }

    fn terminate(&self, agent: AgentId) {
        self.terminate_all(&[agent]);
    }

    fn terminate_all(&self, agents: &[AgentId]) {
        wake_all(page::terminate(agents));
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        _: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        let name = names::spell(&self.bucket, name);
        Ok((page::request(agent, &name, kind, waker)?, Poll::Pending))
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        page::poll_request(ticket, waker)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        if let Some(lost) = page::lost(ticket) {
            return Poll::Ready(lost);
        }
        page::wait(ticket, waker);
        Poll::Pending
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        page::lost(ticket)
    }

    fn finish(&self, ticket: Ticket) {
        page::finish(ticket);
    }

    fn query(&self) -> QueryFuture<'_> {
        Box::pin(Asked { serial: page::query(), bucket: Arc::clone(&self.bucket) })
    }
}

impl Future for Asked {
    type Output = Result<LockManagerSnapshot, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        page::poll_query(self.serial, context.waker()).map(|snapshot| {
            let snapshot = snapshot?;
            let infos = |infos: Array| {
                infos
                    .iter()
                    .filter_map(|info| lock_info(&self.bucket, info.unchecked_ref()))
                    .collect()
            };
            Ok(LockManagerSnapshot::new(infos(snapshot.held()), infos(snapshot.pending())))
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        page::forget_query(self.serial);
    }
}

/// What is shown of a lock or request of the origin, if it is of this bucket.
fn lock_info(bucket: &str, info: &native::LockInfo) -> Option<LockInfo> {
    let name = names::read(bucket, &native::units(&info.name()))?;
    let mode = if info.mode() == "shared" { Mode::Shared } else { Mode::Exclusive };
    Some(LockInfo::new(name, mode, names::client_id(&info.client_id())))
}
