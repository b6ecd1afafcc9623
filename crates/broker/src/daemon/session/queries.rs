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
        answers::{Answered, InspectionParts, Parts, QueryFuture, SnapshotParts},
        session_ends::End,
    },
    Session,
};

impl Session {
    /// Takes in a question. The answer is sent when it is known.
    pub(super) fn handle_query(&mut self, message: ToDaemon) -> Result<(), End> {
        match message {
            ToDaemon::Query { query, bucket } => {
                let daemon = Arc::clone(&self.daemon);
                let answer = async move {
                    let locks = daemon.user_agent().lock_manager(&bucket);
                    Answered::Query(query, daemon.query(&locks, &bucket).await)
                };
                self.ask(query, Box::pin(answer))
            }
            ToDaemon::Inspect { query, bucket, name } => {
                let daemon = Arc::clone(&self.daemon);
                let answer = async move {
                    let locks = daemon.user_agent().lock_manager(&bucket);
                    let inspection = daemon.inspect(&locks, &bucket, name.as_ref()).await;
                    Answered::Inspect(query, bucket, name, inspection)
                };
                self.ask(query, Box::pin(answer))
            }
            ToDaemon::Position { query, bucket, name, client_id } => {
                let daemon = Arc::clone(&self.daemon);
                let client_id = ClientId::from_bytes(client_id);
                let answer = async move {
                    let locks = daemon.user_agent().lock_manager(&bucket);
                    let position = daemon.position(&locks, &bucket, &name, client_id).await;
                    Answered::Position(query, bucket, name, position)
                };
                self.ask(query, Box::pin(answer))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn ask(&mut self, query: Query, mut answer: QueryFuture) -> Result<(), End> {
        if self.queries.len() >= self.daemon.limits().queries {
            let failure = Failure::Refused("too many queries at once; await some first".to_owned());
            return self.say(&FromDaemon::QueryFailed { query, failure });
        }
        // The answer is polled now, because it must see what came before the question, and not what
        // comes after it. This needs no waker: if the answer is not there yet, the set polls it
        // again.
        match answer.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(answered) => self.answer(answered),
            Poll::Pending => {
                self.queries.push(answer);
                Ok(())
            }
        }
    }

    pub(super) fn answer(&mut self, answered: Answered) -> Result<(), End> {
        let (query, error) = match answered {
            Answered::Query(query, Ok(snapshot)) => {
                self.answers.push(Parts::Snapshot(SnapshotParts::new(query, snapshot)));
                return Ok(());
            }
            Answered::Inspect(query, bucket, name, Ok((mut inspection, looks))) => {
                self.daemon.complete(&mut inspection, &bucket, name.as_ref(), looks.as_ref());
                let parts = InspectionParts::new(query, inspection);
                self.answers.push(Parts::Inspection(parts));
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
