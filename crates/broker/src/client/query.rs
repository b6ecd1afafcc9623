//! A client's questions: for a snapshot, an inspection, or the daemon's status.

use std::{
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use navlock_core::Error;
use navlock_wire::{Query, ToDaemon};

use super::{connection::Connection, questions::QuestionAnswer};

/// The answer to a question that has been asked. To drop this withdraws the question.
pub(super) struct Answer<'a> {
    connection: &'a Connection,
    query: Query,
}

impl<'a> Answer<'a> {
    /// Asks the daemon.
    pub(super) fn ask(
        connection: &'a Connection,
        question: impl FnOnce(Query) -> ToDaemon,
    ) -> Self {
        let query = connection.change(|table| table.ask(question));
        Self { connection, query }
    }
}

impl Future for Answer<'_> {
    type Output = Result<QuestionAnswer, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut table = self.connection.table();
        // The question stays in the table until `self` is dropped, so it is always found.
        let Some(question) = table.questions.get_mut(self.query) else {
            return Poll::Pending;
        };
        let Some(outcome) = &question.outcome else {
            let known = question.waker.replace(context.waker().clone());
            drop(table);
            drop(known);
            self.connection.await_word();
            return Poll::Pending;
        };
        Poll::Ready(outcome.clone().map(|()| mem::take(&mut question.answer)))
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        let question = self.connection.table().questions.remove(self.query);
        // The waker is the caller's code, so it is dropped without the table locked.
        drop(question);
    }
}
