//! What the engine tells its host.

use crate::RequestId;

/// Something that became of a request or of a lock. A lock keeps the id of the request it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// The request is a lock from now on: run its callback.
    Granted(RequestId),
    /// The lock could not be had at once (`ifAvailable`): run the callback without a lock. The
    /// request was never queued and its id means nothing any more.
    Unavailable(RequestId),
    /// The lock was taken away by a `steal`. What its holder still does is done without the lock.
    Stolen(RequestId),
    /// The pending request or the lock ended with its agent.
    Terminated(RequestId),
}
