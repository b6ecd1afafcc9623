//! The future of a request with a handle of its own, until the request is made.

use std::{
    mem,
    task::{Context, Poll},
};

use super::{Grant, LockFuture, Named, future::State, nesting::Nesting};
use crate::{Error, LockOptions, backend::RequestDetails};

impl<G: Grant, N: Named> LockFuture<'_, G, N> {
    /// Makes the request of a future with a handle of its own.
    pub(super) fn make_owned(&mut self, context: &Context<'_>) -> Poll<Result<G, Error>> {
        match &mut self.state {
            State::Owned { nesting, .. } => match nesting.take() {
                Some(mut nesting) => {
                    let why = mem::take(&mut nesting.why);
                    let details = RequestDetails { why: &why, serial: nesting.serial };
                    self.make_nested(context, details, || *nesting)
                }
                None => self.make_once(context, RequestDetails::default(), false).0,
            },
            _ => unreachable!("asked for by `poll`, which has looked"),
        }
    }

    /// Polls the request of a future with a handle of its own. When the request is made and has to
    /// wait, `nesting` says inside which locks it was made.
    pub(crate) fn poll_nested(
        &mut self,
        context: &Context<'_>,
        details: RequestDetails<'_>,
        nesting: impl FnOnce() -> Nesting,
    ) -> Poll<Result<G, Error>> {
        match self.state {
            State::Owned { .. } => self.make_nested(context, details, nesting),
            _ => self.poll_made(context),
        }
    }

    fn make_nested(
        &mut self,
        context: &Context<'_>,
        details: RequestDetails<'_>,
        nesting: impl FnOnce() -> Nesting,
    ) -> Poll<Result<G, Error>> {
        let (answer, options) = self.make_once(context, details, true);
        if answer.is_ready() {
            return answer;
        }
        self.tell_nesting(nesting(), options, context.waker())
    }

    /// Makes the request and drops its handle. Returns the options too.
    fn make_once(
        &mut self,
        context: &Context<'_>,
        details: RequestDetails<'_>,
        has_nesting: bool,
    ) -> (Poll<Result<G, Error>>, LockOptions) {
        let State::Owned { environment, name, options, .. } =
            mem::replace(&mut self.state, State::Done)
        else {
            unreachable!("the callers have looked")
        };
        let answer = self.make_in(&environment, || name, options, context, (details, has_nesting));
        (answer, options)
    }
}
