//! The questions in a turn: snapshots that are a cut.
//!
//! A snapshot that shows something of an agent must show all that the agent had done before. A client that owns
//! names goes on in its map without a message. So the words of the maps are read, then all messages that were sent
//! before that are read and acted on, and then the words are read again. If they have not changed, the snapshot
//! between the two is what was so when they were read first.

use super::{super::consistent::TRIES, State, caught, sockets::Sockets, times::Frame};

/// How many questions are answered in one turn. Those who lock wait for as many.
const MOST: usize = 64;

impl<S: Sockets> State<S> {
    /// Takes in a question, which is answered when all that was sent before it was acted on.
    pub(super) fn open_question(&mut self, Frame { key, message, .. }: Frame) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        match caught(|| connection.session.open_question(message)) {
            Ok(()) if connection.session.goes_on_asking() => self.asking.push_back(key),
            Ok(()) => self.wanted.want(key),
            Err(end) => self.finish(key, end),
        }
    }

    /// Answers the questions of this session now, because its client has said something after them, of which they
    /// see nothing.
    pub(super) fn answer_in_place(&mut self, key: usize) {
        for _ in 0..MOST {
            let Some(connection) = self.connections.get_mut(key) else { return };
            match caught(|| connection.session.answer_question(None)) {
                Ok(true) => {}
                Ok(false) => return,
                Err(end) => return self.finish(key, end),
            }
        }
    }

    /// Answers questions, one of each session in turn.
    pub(super) fn answer_questions(&mut self) {
        for _ in 0..MOST {
            let Some(key) = self.asking.pop_front() else { return };
            self.answer_question(key);
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.session.asks_no_more();
            if connection.session.goes_on_asking() {
                self.asking.push_back(key);
            }
        }
    }

    fn answer_question(&mut self, key: usize) {
        for tries in 0..=TRIES {
            let Some(connection) = self.connections.get(key) else { return };
            let Some(question) = connection.session.question() else { return };
            let before = connection.session.answered();
            let words = self.daemon.words_for(question).filter(|_| tries < TRIES);
            if words.is_some() {
                self.read();
                self.act_on_messages();
            }
            let Some(connection) = self.connections.get_mut(key) else { return };
            self.wanted.want(key);
            // It may have been answered in its place meanwhile.
            if connection.session.answered() != before {
                return;
            }
            match caught(|| connection.session.answer_question(words)) {
                Ok(true) => return,
                Ok(false) => {}
                Err(end) => return self.finish(key, end),
            }
        }
    }
}
