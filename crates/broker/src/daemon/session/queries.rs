//! The questions of a client, and their answers.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::task::noop_waker_ref;
use navlock_core::{ClientId, Inspection, Position};
use navlock_wire::{Failure, FromDaemon, Query, ToDaemon};

use super::{
    super::{
        answers::{Answered, Parts, QueryFuture},
        delegations::Looks,
        session_ends::End,
    },
    Session,
};

impl Session {
    /// Takes in a question. The answer is sent when it is known. If there are `words` of maps as they were before
    /// the last messages were read, and these words have changed since, there is no answer, and this returns false.
    pub(in super::super) fn ask(
        &mut self,
        question: &ToDaemon,
        words: Option<Looks>,
    ) -> Result<bool, End> {
        let daemon = Arc::clone(&self.daemon);
        let (query, answer): (Query, QueryFuture) = match question.clone() {
            ToDaemon::Query { query, bucket } => {
                let answer = async move {
                    let locks = daemon.user_agent().lock_manager(&bucket);
                    let found = daemon.query(&locks, &bucket, words).await.transpose()?;
                    Some(Answered::Query(query, found))
                };
                (query, Box::pin(answer))
            }
            ToDaemon::Inspect { query, bucket, name } => {
                let answer = async move {
                    let locks = daemon.user_agent().lock_manager(&bucket);
                    let name_asked = name.as_ref();
                    let found = daemon.inspect(&locks, &bucket, name_asked, words).await;
                    Some(Answered::Inspect(query, bucket, name, found.transpose()?))
                };
                (query, Box::pin(answer))
            }
            ToDaemon::Position { query, bucket, name, client_id } => {
                let client_id = ClientId::from_bytes(client_id);
                let answer = async move {
                    let locks = daemon.user_agent().lock_manager(&bucket);
                    let found = daemon.position(&locks, &bucket, &name, client_id, words).await;
                    Some(Answered::Position(query, bucket, name, found.transpose()?))
                };
                (query, Box::pin(answer))
            }
            _ => return Ok(true),
        };
        self.await_answer(query, answer)
    }

    fn await_answer(&mut self, query: Query, mut answer: QueryFuture) -> Result<bool, End> {
        if self.queries.len() >= self.daemon.limits().queries {
            let failure = Failure::Refused("too many queries at once; await some first".to_owned());
            return self.say(&FromDaemon::QueryFailed { query, failure }).map(|()| true);
        }
        // The answer is polled now, because it must see what came before the question, and not what
        // comes after it. This needs no waker: if the answer is not there yet, the set polls it
        // again.
        match answer.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(Some(answered)) => self.take_answer(answered)?,
            Poll::Ready(None) => return Ok(false),
            Poll::Pending => self.queries.push(answer),
        }
        Ok(true)
    }

    pub(super) fn take_answer(&mut self, answered: Answered) -> Result<(), End> {
        let (query, error) = match answered {
            Answered::Query(query, Ok(snapshot)) => {
                self.answers.push(Parts::of_snapshot(query, snapshot));
                return Ok(());
            }
            Answered::Inspect(query, bucket, name, Ok((mut inspection, looks))) => {
                self.daemon.complete(&mut inspection, &bucket, name.as_ref(), looks.as_ref());
                self.answers.push(Parts::of_inspection(query, inspection));
                return Ok(());
            }
            Answered::Position(query, bucket, name, Ok((position, looks))) => {
                let Position { holder, holders, ahead, .. } = position;
                let mut shown = Inspection::new(holder.into_iter().collect(), Vec::new());
                self.daemon.complete(&mut shown, &bucket, Some(&name), looks.as_ref());
                let position = Position::new(shown.held.pop(), holders, ahead);
                return self.say(&FromDaemon::Position { query, position });
            }
            Answered::Query(query, Err(error))
            | Answered::Inspect(query, _, _, Err(error))
            | Answered::Position(query, _, _, Err(error)) => (query, error),
        };
        self.say(&FromDaemon::QueryFailed { query, failure: self.daemon.failure(&error) })
    }
}
