//! Where a request or lock stands.

use std::{mem, task::Waker};

use navlock_core::{ClientId, Error, Lost, host::Answer};
use navlock_engine::FencingToken;

use super::super::owned::{Hold, SlotIndex};

/// Where a request or lock stands, as far as is known here.
pub(in super::super) enum State {
    Pending(Waker),
    Held(FencingToken, Vec<Waker>),
    Unavailable,
    Failed(Error),
    /// How, and by whom if it was stolen.
    Lost(Lost, Option<ClientId>),
}

/// Where in the client's map a request stands that is pending, or a lock that is held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum SlotPlace {
    /// Nowhere: the daemon alone knows of it.
    #[default]
    Outside,
    /// The request is pending, and is to be granted there.
    Slot(SlotIndex),
    /// It is held there.
    Hold(Hold),
}

impl State {
    /// Ends what is pending with an error and what is held as lost; other ends stay as they are. Whom
    /// to wake is added.
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

    /// Whether the daemon knows of it too.
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
