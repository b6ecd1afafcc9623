//! A bound for the fencing tokens of owners, who count by themselves.
//!
//! An owner counts on from the token of its grant, by one each time that it takes the name. Nobody
//! takes a lock in less than a nanosecond, so an owner's token is never ahead of the clock. Owners
//! of a shared lock also keep up with the clock. When an owner loses a name, the next token is the
//! one after the owner's last token; a last token above the clock is not believed. So if only one
//! client uses a name, its tokens follow one another directly, and the client can tell from them
//! that nobody else has had the name.

use crate::clock;

/// What the broker knows of the tokens that owners of names have had.
#[derive(Debug, Default)]
pub(super) struct TokenBound {
    /// A moment plus this number is a token that is larger than all tokens that owners have had
    /// before that moment.
    epoch: u64,
    /// A number that is larger than all tokens of clients that no longer own their names, in any
    /// bucket. It never becomes smaller.
    least: u64,
}

impl TokenBound {
    /// `epoch` plus a moment is the smallest token of a grant at that moment.
    pub(super) fn new(epoch: u64) -> Self {
        let mut bound = Self { epoch, least: 0 };
        bound.least = bound.now();
        bound
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The smallest token that may be granted for a name that nobody owns.
    pub(super) fn least(&self) -> u64 {
        self.least
    }

    /// The token of this moment. No owner has a larger one, however fast it counts.
    pub(super) fn now(&self) -> u64 {
        self.epoch.wrapping_add(clock::now())
    }

    /// Raises the bound above all tokens of an owner, which can take nothing any more. `last` is the
    /// owner's last token, if the owner counts.
    pub(super) fn raise_above(&mut self, last: Option<u64>) {
        let now = self.now();
        let last = last.map_or(now, |last| last.min(now));
        self.least = self.least.max(last.saturating_add(1));
    }
}
