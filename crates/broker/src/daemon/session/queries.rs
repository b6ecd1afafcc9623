//! The questions of a client, and their answers.

use std::{
    mem,
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

/// How many questions may wait for their turn. A question takes some hundred bytes.
const MOST: usize = 1 << 16;

impl Session {
    /// Takes in a question.
    pub(in super::super) fn open_question(&mut self, question: ToDaemon) -> Result<(), End> {
        if self.is_mute {
            return Ok(());
        }
        if self.questions.len() >= MOST {
            return Err(End::Deaf);
        }
        self.questions.push_back(question);
        Ok(())
    }

    /// The question that is next, if there is room for its answer.
    pub(in super::super) fn question(&self) -> Option<&ToDaemon> {
        let has_room = self.answer.is_none() && self.has_room();
        self.questions.front().filter(|_| has_room)
    }

    /// How many questions were answered.
    pub(in super::super) fn answered(&self) -> u64 {
        self.answered
    }

    /// Whether there are questions.
    pub(in super::super) fn is_asking(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Whether the turns have to be told that there is a question that can be answered. Returns that once, until
    /// [`asks_no_more`](Self::asks_no_more).
    pub(in super::super) fn goes_on_asking(&mut self) -> bool {
        self.question().is_some() && !mem::replace(&mut self.is_listed, true)
    }

    /// The turns know nothing of questions of this session any more.
    pub(in super::super) fn asks_no_more(&mut self) {
        self.is_listed = false;
    }

    /// Answers the next question, if there is one and room for its answer. Returns whether it did: see
    /// [`ask`](Self::ask).
    pub(in super::super) fn answer_question(&mut self, words: Option<Looks>) -> Result<bool, End> {
        let Some(question) = self.question().cloned() else { return Ok(false) };
        if !self.ask(question, words)? {
            return Ok(false);
        }
        self.questions.pop_front();
        self.answered += 1;
        self.fill()?;
        Ok(true)
    }

    /// Asks. The answer is sent when it is known. If there are `words` of maps as they were before
    /// the last messages were read, and these words have changed since, there is no answer, and this returns false.
    fn ask(&mut self, question: ToDaemon, words: Option<Looks>) -> Result<bool, End> {
        let daemon = Arc::clone(&self.daemon);
        let (query, answer): (Query, QueryFuture) = match question {
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
                self.answer = Some(Parts::of_snapshot(query, snapshot));
                return Ok(());
            }
            Answered::Inspect(query, bucket, name, Ok((mut inspection, looks))) => {
                self.daemon.complete(&mut inspection, &bucket, name.as_ref(), looks.as_ref());
                self.answer = Some(Parts::of_inspection(query, inspection));
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
