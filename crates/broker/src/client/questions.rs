//! The client's questions to the daemon, and their answers.

use std::{collections::HashMap, task::Waker};

use navlock_core::{Error, Inspection, LockManagerSnapshot, Position};
use navlock_wire::{FromDaemon, Query, Status, ToDaemon};

use crate::convert::failed;

/// All questions whose answers are wanted.
#[derive(Default)]
pub(super) struct Questions {
    asked: HashMap<Query, Question>,
    next: Query,
}

/// A question that was asked.
pub(super) struct Question {
    /// The message, which may have to be sent again.
    asked: ToDaemon,
    pub(super) answer: QuestionAnswer,
    pub(super) outcome: Option<Result<(), Error>>,
    pub(super) waker: Option<Waker>,
}

/// The parts of an answer that have come.
#[derive(Default)]
pub(super) struct QuestionAnswer {
    pub(super) snapshot: LockManagerSnapshot,
    pub(super) inspection: Inspection,
    pub(super) position: Position,
    pub(super) status: Option<Status>,
}

impl Questions {
    /// Returns a number that no question has.
    pub(super) fn number(&mut self) -> Query {
        let query = self.next;
        self.next += 1;
        query
    }

    /// Adds the question that this message asks.
    pub(super) fn insert(&mut self, query: Query, asked: ToDaemon) -> &mut Question {
        self.asked.entry(query).insert_entry(Question::new(asked)).into_mut()
    }

    /// A question whose answer is still wanted.
    pub(super) fn get_mut(&mut self, query: Query) -> Option<&mut Question> {
        self.asked.get_mut(&query)
    }

    /// Removes a question whose answer is not wanted any more. Returns it, for the caller to drop
    /// with nothing locked.
    pub(super) fn remove(&mut self, query: Query) -> Option<Question> {
        self.asked.remove(&query)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// The messages of all questions without an answer, to be sent to a new daemon.
    pub(super) fn again(&mut self) -> Vec<ToDaemon> {
        let open = self.asked.values_mut().filter(|question| question.outcome.is_none());
        let again = open.map(|question| {
            // The parts that have come belong to an earlier moment.
            question.answer = QuestionAnswer::default();
            question.asked.clone()
        });
        again.collect()
    }

    /// Fails all questions.
    pub(super) fn give_up(&mut self, error: &Error, wakers: &mut Vec<Waker>) {
        for question in self.asked.values_mut() {
            question.end(Err(error.clone()), wakers);
        }
    }

    /// Takes in a part of an answer. A part whose question is not there any more is ignored: it was
    /// on its way when the question ended.
    pub(super) fn handle_message(&mut self, message: FromDaemon, wakers: &mut Vec<Waker>) {
        match message {
            FromDaemon::Snapshot { query, held, pending, last } => {
                if let Some(question) = self.asked.get_mut(&query) {
                    let snapshot = &mut question.answer.snapshot;
                    snapshot.held.extend(held);
                    snapshot.pending.extend(pending);
                    if last {
                        question.end(Ok(()), wakers);
                    }
                }
            }
            FromDaemon::Inspection { query, held, pending, owned, left_out, last } => {
                if let Some(question) = self.asked.get_mut(&query) {
                    let inspection = &mut question.answer.inspection;
                    inspection.held.extend(held);
                    inspection.pending.extend(pending);
                    inspection.owned.extend(owned);
                    inspection.left_out = left_out;
                    if last {
                        question.end(Ok(()), wakers);
                    }
                }
            }
            FromDaemon::Position { query, position } => {
                if let Some(question) = self.asked.get_mut(&query) {
                    question.answer.position = position;
                    question.end(Ok(()), wakers);
                }
            }
            FromDaemon::Status { query, status } => {
                if let Some(question) = self.asked.get_mut(&query) {
                    question.answer.status = Some(status);
                    question.end(Ok(()), wakers);
                }
            }
            FromDaemon::QueryFailed { query, failure } => {
                if let Some(question) = self.asked.get_mut(&query) {
                    question.end(Err(failed(failure)), wakers);
                }
            }
            // Not the answer to a question.
            _ => {}
        }
    }
}

impl Question {
    fn new(asked: ToDaemon) -> Self {
        Self { asked, answer: QuestionAnswer::default(), outcome: None, waker: None }
    }

    fn end(&mut self, outcome: Result<(), Error>, wakers: &mut Vec<Waker>) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            wakers.extend(self.waker.take());
        }
    }
}
