//! The state of a request or lock, and its place in the map.

use std::{mem, task::Waker};

use navlock_core::{ClientId, Error, Lost, host::Answer};
use navlock_engine::FencingToken;

use super::super::owned::{Hold, SlotIndex};

/// The state of a request or lock, as far as the client knows.
pub(in super::super) enum State {
    Pending(Waker),
    Held(FencingToken, Vec<Waker>),
    Unavailable,
    Failed(Error),
    /// The lock is lost. This says how, and who has stolen it, if it was stolen.
    Lost(Lost, Option<ClientId>),
}

/// The place of a pending request or a held lock in the client's map.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum SlotPlace {
    /// It has no place in the map: only the daemon knows of it.
    #[default]
    Outside,
    /// The request is pending, and is to be granted in this slot.
    Slot(SlotIndex),
    /// The lock is held by this hold.
    Hold(Hold),
}

impl State {
    /// Ends a pending request with an error, or a held lock as lost. What has ended already stays
    /// as it is. Adds the wakers to call to `wakers`.
    pub(super) fn end(&mut self, error: Error, lost: Lost, wakers: &mut Vec<Waker>) {
        let end = match self {
            Self::Pending(_) => Self::Failed(error),
            Self::Held(..) => Self::Lost(lost, None),
            _ => return,
        };
        match mem::replace(self, end) {
            Self::Pending(waker) => wakers.push(waker),
            Self::Held(_, watchers) => wakers.extend(watchers),
            _ => {}
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        matches!(self, Self::Pending(_))
    }

    /// Whether this is pending or held, so that the daemon knows of it as well.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self, Self::Pending(_) | Self::Held(..))
    }

    /// The answer to the request, if there is one.
    pub(in super::super) fn answer(&self) -> Option<Result<Answer, Error>> {
        match self {
            Self::Pending(_) => None,
            Self::Held(token, _) => Some(Ok(Answer::Granted(*token))),
            Self::Unavailable => Some(Ok(Answer::Unavailable)),
            Self::Failed(error) => Some(Err(error.clone())),
            Self::Lost(lost, _) => Some(Err((*lost).into())),
        }
    }
}
