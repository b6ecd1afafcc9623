//! The questions of a client, and their answers.

use std::{
    iter, mem,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::task::noop_waker_ref;
use navlock_core::{Inspected, Inspection};
use navlock_wire::{Failure, FromDaemon, ToDaemon};

use super::{
    super::{
        answers::{Answer, Answered, Parts, QueryFuture},
        delegations::Looks,
        guests::User,
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
        let (ToDaemon::Query { query, .. }
        | ToDaemon::Inspect { query, .. }
        | ToDaemon::Position { query, .. }) = question
        else {
            return Ok(true);
        };
        let may_be_answered = self.user().is_none_or(|user| user.may_be_answered());
        if self.queries.len() >= self.daemon.limits.queries || !may_be_answered {
            let failure = Failure::Refused("too many queries at once; await some first".to_owned());
            return self.say(&FromDaemon::QueryFailed { query, failure }).map(|()| true);
        }
        let daemon = Arc::clone(&self.daemon);
        let mut answer: QueryFuture = Box::pin(async move { daemon.answer(question, words).await });
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

    pub(super) fn take_answer(&mut self, (query, answer): Answered) -> Result<(), End> {
        let answer = answer.map(|answer| match self.connected.user() {
            Some(user) => veiled(answer, user),
            None => answer,
        });
        self.open_answer = self.user().map(User::open_answer);
        match answer {
            Ok(Answer::Snapshot(snapshot)) => {
                self.answer = Some(Parts::of_snapshot(query, snapshot));
            }
            Ok(Answer::Inspection(inspection)) => {
                self.answer = Some(Parts::of_inspection(query, inspection));
            }
            Ok(Answer::Position(position)) => {
                self.open_answer = None;
                return self.say(&FromDaemon::Position { query, position });
            }
            Err(error) => {
                let failure = self.daemon.failure(&error);
                self.open_answer = None;
                return self.say(&FromDaemon::QueryFailed { query, failure });
            }
        }
        Ok(())
    }
}

/// This answer as far as the user may see it.
fn veiled(mut answer: Answer, user: &User) -> Answer {
    let shown: Box<dyn Iterator<Item = &mut Inspected>> = match &mut answer {
        Answer::Snapshot(_) => Box::new(iter::empty()),
        Answer::Inspection(Inspection { held, pending, owned, .. }) => {
            Box::new(held.iter_mut().chain(pending).chain(owned))
        }
        Answer::Position(position) => Box::new(position.holder.iter_mut()),
    };
    for agent in shown.filter_map(|one| one.agent.as_mut()) {
        user.veil(agent);
    }
    answer
}
