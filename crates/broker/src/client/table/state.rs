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
    /// Lost: how, and by whom if it was stolen.
    Lost(Lost, Option<ClientId>),
}

/// The place of a pending request or a held lock in the client's map.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum SlotPlace {
    /// It is not in the map: only the daemon knows of it.
    #[default]
    Outside,
    /// The request is pending, and is to be granted in this slot.
    Slot(SlotIndex),
    /// The lock is held by this hold.
    Hold(Hold),
}

impl State {
    /// Ends a pending request with an error, or a held lock as lost; one that has ended stays as it
    /// is. Adds whom to wake.
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

    /// Whether it is pending or held, so that the daemon knows of it too.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self, Self::Pending(_) | Self::Held(..))
    }

    /// The answer to the request, if it is there.
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
