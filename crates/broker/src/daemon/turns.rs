//! The turns of the broker: what it does, and in which order.
//!
//! What is complete before another program begins to ask must be seen by what that program asks. A client
//! is told, or can go on, once its message is written to its socket. And when a message can be read, whatever
//! was written to any other socket before can be read as well. So the order of the broker is that of sending,
//! and a turn has these steps:
//!
//! 1. [Wait](Turns::run) until some connection has something, a request has an outcome, or messages are left
//!    from the last turn.
//! 2. [Read](State::read): take the time, ask which connections have something, and read all of them. Nothing
//!    is acted on yet. Whatever was sent before that time is read now.
//! 3. [Act](State::act): first on the clients that have ended, each with what it had said before; then on
//!    all messages that were sent before the time of step 2, in the order of their times; last the questions,
//!    which see all of that. Later messages are left for the next turn.
//! 4. [Answer](State::answer): tell the clients what that has led to.
//!
//! # Invariants
//!
//! - A message's time is not after its reading, nor before that of an earlier message of its connection: see
//!   [`times`].
//! - Nothing in a turn waits. What waits is a task beside it, which leaves word for the next turn.
//! - Whoever loses a lock is told before whoever has taken it.

mod connection;
mod times;
mod wanted;

use std::{
    collections::{HashSet, VecDeque},
    future::poll_fn,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::BytesMut;
use navlock_core::host::RequestKind;
use navlock_platform::{readiness::Readiness, socket::AsyncStream};
use navlock_wire::{Moment, ToDaemon};
use slab::Slab;

use self::{
    connection::{Connection, Read},
    times::Frame,
    wanted::Wanted,
};
use super::{
    consistent::TRIES,
    process::Process,
    session::{Session, is_question},
    session_ends::End,
    state::Daemon,
};
use crate::{LOGS, clock};

/// How much is read at once.
const READ_SIZE: usize = 16 << 10;

/// After how many turns other tasks have theirs.
const TURNS: usize = 8;

/// How many questions are answered in one turn. Those who lock wait for as many.
const QUESTIONS: usize = 64;

/// After how many messages clients are told what there is, even if the turn has more.
const ANSWER_AFTER: usize = 64;

/// The sessions of a broker, and their turns.
#[derive(Default)]
pub(super) struct Turns {
    /// `None` as long as the broker does not serve.
    state: Mutex<Option<State>>,
    wanted: Arc<Wanted>,
}

struct State {
    daemon: Arc<Daemon>,
    readiness: Readiness,
    connections: Slab<Connection>,
    /// The connections that have more than was read, and those that have joined.
    unread: Vec<usize>,
    /// The answer of the system, whose memory is kept.
    ready: Vec<(usize, bool)>,
    /// What was read and not acted on.
    frames: Vec<Frame>,
    /// The connections that have ended, and how.
    ended: Vec<(usize, End)>,
    /// The questions that are answered when all else is done.
    questions: VecDeque<(usize, ToDaemon)>,
    /// The time of this turn.
    now: Moment,
    /// For reading.
    buffer: Vec<u8>,
    wanted: Arc<Wanted>,
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        // A poisoned mutex may be used: each session is caught with its own panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes turns. Never ends.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub(super) async fn run(&self, daemon: &Arc<Daemon>) -> std::io::Result<()> {
        let state = State::new(Arc::clone(daemon), Arc::clone(&self.wanted))?;
        *self.state() = Some(state);
        poll_fn(|context| {
            let mut state = self.state();
            let Some(state) = &mut *state else { return Poll::Ready(()) };
            for _ in 0..TURNS {
                if !state.is_due(context) {
                    return Poll::Pending;
                }
                state.turn();
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        Ok(())
    }

    /// Ends all sessions, as if their clients had died.
    pub(super) fn end(&self) {
        let state = self.state().take();
        drop(state);
    }

    /// How many sessions there are.
    pub(super) fn len(&self) -> usize {
        self.state().as_ref().map_or(0, |state| state.connections.len())
    }

    /// A session begins: its messages are read from this stream from now on. `heard` was read before.
    ///
    /// # Errors
    ///
    /// If there are no descriptors or no memory left.
    pub(super) fn join(
        &self,
        session: Session,
        process: Option<Process>,
        stream: AsyncStream,
        heard: BytesMut,
    ) -> std::io::Result<()> {
        let mut state = self.state();
        // A broker that does not serve any more ends its sessions.
        let Some(state) = &mut *state else { return Ok(()) };
        state.join(session, process, stream, heard)
    }

    /// Acts on all that was sent before this call, for those who ask by other ways than a session.
    pub(super) fn catch_up(&self) {
        if let Some(state) = &mut *self.state() {
            state.turn();
        }
    }
}

impl State {
    fn new(daemon: Arc<Daemon>, wanted: Arc<Wanted>) -> std::io::Result<Self> {
        Ok(Self {
            daemon,
            readiness: Readiness::new()?,
            connections: Slab::new(),
            unread: Vec::new(),
            ready: Vec::new(),
            frames: Vec::new(),
            ended: Vec::new(),
            questions: VecDeque::new(),
            now: clock::now(),
            buffer: Vec::with_capacity(READ_SIZE),
            wanted,
        })
    }

    fn join(
        &mut self,
        session: Session,
        process: Option<Process>,
        stream: AsyncStream,
        heard: BytesMut,
    ) -> std::io::Result<()> {
        let entry = self.connections.vacant_entry();
        let key = entry.key();
        let stream = self.readiness.join(stream, socket_key(key))?;
        let waker = Wanted::waker(&self.wanted, key);
        if let Some(process) = &process {
            // Without this the end of the connection still tells the end of the client.
            let _ = self.readiness.join_process(process.end_source(), process_key(key));
        }
        entry.insert(Connection::new(session, process, stream, heard, waker));
        self.unread.push(socket_key(key));
        self.wanted.want(key);
        Ok(())
    }

    /// Whether there is anything to do. If not, the task of the turns is woken when there is.
    fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        self.wanted.register(context.waker());
        self.readiness.poll_changed(context).is_ready() || self.is_left()
    }

    /// Whether there is something to do that nothing more has to come for.
    fn is_left(&self) -> bool {
        !self.frames.is_empty()
            || !self.unread.is_empty()
            || !self.questions.is_empty()
            || !self.wanted.is_empty()
    }

    /// One turn.
    fn turn(&mut self) {
        self.wanted.set_in_turn(true);
        self.read();
        self.act();
        self.answer();
        self.wanted.set_in_turn(false);
    }

    /// Reads what was sent before this moment, and perhaps some of what was sent since.
    fn read(&mut self) {
        self.now = clock::now();
        let mut ready = mem::take(&mut self.ready);
        ready.extend(self.unread.drain(..).map(|key| (key, true)));
        self.readiness.ask(&mut ready);
        for (ready, may_end) in ready.drain(..) {
            let (key, is_process) = (ready / 2, ready % 2 == 1);
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if is_process {
                connection.die();
            }
            let to_the_end = may_end || is_process;
            match connection.read((key, to_the_end), self.now, &mut self.buffer, &mut self.frames) {
                Read::All => {}
                Read::More => self.unread.push(socket_key(key)),
                Read::End(end) => self.ended.push((key, end)),
            }
            if connection.awaits_room() {
                self.wanted.want(key);
            }
        }
        self.ready = ready;
    }

    /// Acts on what was read.
    fn act(&mut self) {
        self.act_on_messages();
        for _ in 0..QUESTIONS {
            let Some((key, question)) = self.questions.pop_front() else { return };
            self.answer_question(key, &question);
        }
    }

    /// Acts on all but questions.
    fn act_on_messages(&mut self) {
        self.daemon.let_go();
        for (key, end) in mem::take(&mut self.ended) {
            let frames = mem::take(&mut self.frames).into_iter();
            let (theirs, others): (Vec<_>, _) = frames.partition(|frame| frame.key == key);
            self.frames = others;
            for frame in theirs {
                self.act_on(frame);
            }
            self.finish(key, end);
        }
        self.frames.sort_by_key(|frame| frame.at);
        let due = self.frames.partition_point(|frame| frame.at <= self.now);
        let later = self.frames.split_off(due);
        let mut due = mem::replace(&mut self.frames, later);
        if due.iter().any(|frame| is_question(&frame.message)) {
            due = self.take_questions(due);
        }
        for (count, frame) in due.into_iter().enumerate() {
            self.act_on(frame);
            if (count + 1) % ANSWER_AFTER == 0 {
                self.answer();
            }
        }
    }

    /// Takes out the questions that are answered last. A question after which its client has sent something else sees
    /// nothing of that: it is answered in its place.
    fn take_questions(&mut self, frames: Vec<Frame>) -> Vec<Frame> {
        let (mut go_on, mut last, mut others) = (HashSet::new(), Vec::new(), Vec::new());
        for frame in frames.into_iter().rev() {
            if !is_question(&frame.message) {
                go_on.insert(frame.key);
            } else if !go_on.contains(&frame.key) {
                last.push((frame.key, frame.message));
                continue;
            }
            others.push(frame);
        }
        self.questions.extend(last.into_iter().rev());
        others.reverse();
        others
    }

    /// Acts on one message.
    fn act_on(&mut self, Frame { key, message, .. }: Frame) {
        // The session may have ended at an earlier message.
        let Some(connection) = self.connections.get_mut(key) else { return };
        let steals = matches!(message, ToDaemon::Request { kind: RequestKind::Steal, .. });
        let acted = caught(|| connection.session.handle_message(message));
        self.wanted.want(key);
        match acted {
            Ok(()) if steals => self.answer(),
            Ok(()) => {}
            Err(end) => self.finish(key, end),
        }
    }

    /// Answers a question as of this moment: it sees everything that was done before it by those of whom it sees
    /// anything.
    fn answer_question(&mut self, key: usize, question: &ToDaemon) {
        for tries in 0.. {
            // A client that owns names goes on without a message. If its map says the same before and after all
            // messages of a time were read, then the map says what was so at that time.
            let words = self.daemon.words_for(question).filter(|_| tries < TRIES);
            if words.is_some() {
                self.read();
                self.act_on_messages();
            }
            let Some(connection) = self.connections.get_mut(key) else { return };
            let is_answered = caught(|| connection.session.ask(question, words));
            self.wanted.want(key);
            match is_answered {
                Ok(true) => return,
                Ok(false) => {}
                Err(end) => return self.finish(key, end),
            }
        }
    }

    /// Tells clients what there is to tell.
    fn answer(&mut self) {
        while let Some(key) = self.wanted.next() {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            match caught(|| connection.serve()) {
                Ok(()) => connection.watch_room(&self.readiness, socket_key(key)),
                Err(end) => self.finish(key, end),
            }
        }
    }

    /// Ends a session. Its locks are free when this returns, unless its process is ending and has not ended, or
    /// others have inherited them.
    fn finish(&mut self, key: usize, end: End) {
        let Some(connection) = self.connections.try_remove(key) else { return };
        self.frames.retain(|frame| frame.key != key);
        self.unread.retain(|unread| unread / 2 != key);
        self.questions.retain(|(asker, _)| *asker != key);
        connection.leave(&self.readiness, socket_key(key), process_key(key));
        connection.end(&self.daemon, end);
    }
}

/// Does this for a session. A panic ends the session, as any other end does: the locks of its client are free.
fn caught<T>(act: impl FnOnce() -> Result<T, End>) -> Result<T, End> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        tracing::error!(target: LOGS, "a session panicked; the locks of its client are free");
        Err(End::Panicked)
    })
}

fn socket_key(key: usize) -> usize {
    2 * key
}

fn process_key(key: usize) -> usize {
    2 * key + 1
}
