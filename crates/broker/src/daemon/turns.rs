//! The turns of the broker: what it does, and in which order.
//!
//! What is complete before another program begins to ask must be seen by what that program asks. A client
//! is told, or can go on, once its message is written to its socket. And when a message can be read, whatever
//! was written to any other socket before can be read as well. So the order of the broker is that of sending,
//! and a turn has these steps:
//!
//! 1. [Wait](State::wait) until some connection has something, a process has ended, a request has an outcome, or
//!    messages are left from the last turn.
//! 2. [Read](State::read): take the time, ask which connections have something, and read all of them. Nothing
//!    is acted on yet. Whatever was sent before that time is read now.
//! 3. [Act](State::act): first on the clients that have ended, each with what it had ended before; then on
//!    all messages that were sent before the time of step 2, in the order of their times; last the questions,
//!    which see all of that. Later messages are left for the next turn.
//! 4. [Answer](State::answer): tell the clients what that has led to.
//!
//! Mostly one client alone says something. Then the question to the system is spared: if the wait has found
//! [one connection alone](State::has_one), everything that was sent before its first message was read before, and
//! that message is acted on.
//!
//! # Invariants
//!
//! - A message's time is not after its reading, nor before that of an earlier message of its connection: see
//!   [`times`].
//! - Nothing in a turn waits. What waits goes on [between two turns](Turns::take_beside), on the same thread, and
//!   leaves word for the next one. So no two things happen to the locks at the same time.
//! - Whoever loses a lock is told before whoever has taken it.

mod connection;
mod questions;
mod reading;
#[cfg(test)]
mod simulation;
mod sockets;
mod times;
mod wanted;

use std::{
    collections::VecDeque,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

use bytes::BytesMut;
use navlock_core::host::RequestKind;
use navlock_platform::readiness::{Found, Readiness};
use navlock_wire::{Moment, ToDaemon};
use slab::Slab;

use self::{
    connection::Connection,
    sockets::{Sockets, left_key, process_key, socket_key},
    times::{Frame, Times},
    wanted::Wanted,
};
use super::{
    awaited::{self, Socket},
    process::Process,
    session::{Session, is_question},
    session_ends::End,
    state::Daemon,
    tasks::Running,
};
use crate::{LOGS, clock, sync::lock};

/// How much is read at once.
const READ_SIZE: usize = 16 << 10;

/// After how many messages clients are told what there is, even if the turn has more.
const ANSWER_AFTER: usize = 64;

/// The sessions of a broker, and their turns.
pub(super) struct Turns {
    pub(super) daemon: Arc<Daemon>,
    /// `None` once all sessions have ended.
    state: Mutex<Option<State>>,
    /// Ends the wait for the next turn.
    waker: Waker,
}

struct State<S: Sockets = Readiness> {
    daemon: Arc<Daemon>,
    readiness: S,
    connections: Slab<Connection<S::Socket>>,
    /// The connections that have something, or may have, or have joined.
    unread: Vec<Found>,
    /// Memory that is kept.
    ready: Vec<Found>,
    /// What was read and not acted on.
    frames: Vec<Frame>,
    /// The connections that have ended, and how.
    ended: Vec<(usize, End)>,
    /// The sessions with questions that are answered when all else is done.
    asking: VecDeque<usize>,
    /// When the system was asked the last time. What was sent before that was read.
    now: Moment,
    /// Whether the wait has found one connection alone, and everything that was sent before the first message that is
    /// read there was acted on.
    has_one: bool,
    /// How often the system has looked for what has something.
    ///
    /// The system keeps a list of the connections that were written to since it looked. A look takes the whole
    /// list, and tells those of it that have something. So if everything in the list has something, and a look
    /// tells one connection alone, then whatever was written before its first message was found by an earlier
    /// look. But a connection may be in the list although it has nothing: what was written to it between the look and
    /// the reading was read with the rest. Then something could be written to another one, and after that to this
    /// one, while the look goes through the list that it has taken, and it would tell this one alone.
    looks: u64,
    /// How many connections may be in the list although they have nothing. Each of them has the number of the last
    /// look. It has not if a look did not tell it, since such a look has taken it from the list.
    listed: usize,
    /// How many connections wait for room. They come to the list when there is room.
    full: usize,
    /// For reading.
    buffer: Box<[u8]>,
    wanted: Arc<Wanted>,
}

impl Turns {
    /// To be made on the thread that takes the turns.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub(super) fn new(daemon: Arc<Daemon>) -> io::Result<Self> {
        let readiness = Readiness::new()?;
        let waker = readiness.waker();
        awaited::begin(readiness.registry());
        daemon.next_turn.begin(waker.clone());
        let state = State::new(Arc::clone(&daemon), Wanted::new(waker.clone()), readiness);
        Ok(Self { daemon, state: Mutex::new(Some(state)), waker })
    }

    /// Takes turns on this thread until this future is done, which goes on between them, as the daemon's tasks do.
    pub(super) fn take_beside<T>(&self, beside: impl Future<Output = T>) -> T {
        let running = Running::begin(&self.daemon.tasks);
        running.run(self.waker.clone(), beside, |within| self.take_one(within))
    }

    /// Waits for the next turn, but no longer than `within` says, and takes it if there is anything to do.
    fn take_one(&self, within: impl Fn() -> Option<Duration>) {
        let mut state = lock(&self.state);
        let Some(state) = &mut *state else { return };
        if self.daemon.recovery.lets_join() {
            return;
        }
        state.wait(within);
        let awaiting = self.daemon.next_turn.take();
        if awaiting.is_empty() && !state.is_left() {
            return;
        }
        state.turn();
        for done in awaiting {
            // Whoever has waited may have gone.
            _ = done.send(());
        }
    }

    /// Ends all sessions. Their clients were [left behind](Daemon::leave_behind) before.
    pub(super) fn end(&self) {
        let state = lock(&self.state).take();
        drop(state);
        self.daemon.leaving.end();
    }

    /// How many sessions there are.
    pub(super) fn len(&self) -> usize {
        lock(&self.state).as_ref().map_or(0, |state| state.connections.len())
    }

    /// A session begins: its messages are read from this socket from now on. `heard` was read before.
    pub(super) fn join(
        &self,
        session: Session,
        process: Option<Process>,
        socket: Socket,
        heard: BytesMut,
    ) {
        // A broker that does not serve any more ends its sessions.
        if let Some(state) = &mut *lock(&self.state) {
            state.join(session, process, socket, heard);
        }
    }
}

impl State {
    fn join(
        &mut self,
        session: Session,
        process: Option<Process>,
        socket: Socket,
        heard: BytesMut,
    ) {
        let key = self.connections.vacant_key();
        let socket = socket.into_member(socket_key(key));
        if let Some(process) = &process {
            self.readiness.await_end(process, process_key(key));
        }
        let times = Times::new(session.connected.ahead);
        self.enter(session, process, (socket, heard), times);
    }
}

impl<S: Sockets> State<S> {
    fn new(daemon: Arc<Daemon>, wanted: Wanted, readiness: S) -> Self {
        Self {
            daemon,
            readiness,
            connections: Slab::new(),
            unread: Vec::new(),
            ready: Vec::new(),
            frames: Vec::new(),
            ended: Vec::new(),
            asking: VecDeque::new(),
            now: clock::now(),
            has_one: false,
            looks: 1,
            listed: 0,
            full: 0,
            buffer: vec![0; READ_SIZE].into(),
            wanted: Arc::new(wanted),
        }
    }

    /// Enters a session with its socket and what was read from that before.
    fn enter(
        &mut self,
        session: Session,
        process: Option<Process>,
        stream: (S::Socket, BytesMut),
        times: Times,
    ) {
        let key = self.connections.vacant_key();
        let waker = Wanted::waker(&self.wanted, key);
        self.connections.insert(Connection::new(session, process, stream, waker, times));
        self.unread.push(Found::unsure(socket_key(key)));
        self.wanted.want(key);
    }

    /// Whether there is something to do that nothing more has to come for.
    fn is_left(&self) -> bool {
        !self.frames.is_empty()
            || !self.unread.is_empty()
            || !self.asking.is_empty()
            || !self.wanted.is_empty()
            || self.daemon.leaving.is_left()
    }

    /// One turn.
    fn turn(&mut self) {
        self.read();
        self.act();
        self.answer();
        for process in self.daemon.leaving.unwatched() {
            self.readiness.await_end(&process, left_key(&process));
        }
    }

    /// Acts on what was read.
    fn act(&mut self) {
        self.act_on_messages();
        self.answer_questions();
    }

    /// Acts on all but questions.
    fn act_on_messages(&mut self) {
        self.daemon.leaving.let_go();
        for (key, end) in mem::take(&mut self.ended) {
            let frames = mem::take(&mut self.frames).into_iter();
            let (theirs, others): (Vec<_>, _) = frames.partition(|frame| frame.key == key);
            self.frames = others;
            // Nobody would read the answer to a question, and nobody waits for a lock: a theft would rob who has taken
            // the lock since the thief has died.
            let asks = |message: &ToDaemon| {
                is_question(message) || matches!(message, ToDaemon::Request { .. })
            };
            for frame in theirs.into_iter().filter(|frame| !asks(&frame.message)) {
                self.act_on(frame);
            }
            self.finish(key, end);
        }
        let due = if mem::take(&mut self.has_one) {
            self.frames.len().min(1)
        } else {
            self.frames.sort_by_key(|frame| frame.at);
            self.frames.partition_point(|frame| frame.at <= self.now)
        };
        let later = self.frames.split_off(due);
        let due = mem::replace(&mut self.frames, later);
        for (count, frame) in due.into_iter().enumerate() {
            if is_question(&frame.message) {
                self.open_question(frame);
            } else {
                self.act_on(frame);
            }
            if (count + 1) % ANSWER_AFTER == 0 {
                self.answer();
            }
        }
    }

    /// Acts on one message.
    fn act_on(&mut self, Frame { key, message, .. }: Frame) {
        let steals = matches!(message, ToDaemon::Request { kind: RequestKind::Steal, .. });
        // The session may have ended at an earlier message.
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.session.is_asking() {
            self.answer_in_place(key);
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        let acted = caught(|| connection.session.handle_message(message));
        if steals {
            // The victims are told first.
            self.wanted.want_last(key);
        } else {
            self.wanted.want(key);
        }
        match acted {
            Ok(()) if steals => self.answer(),
            Ok(()) => {}
            Err(end) => self.finish(key, end),
        }
    }

    /// Tells clients what there is to tell.
    fn answer(&mut self) {
        while let Some(key) = self.wanted.next() {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            match caught(|| connection.serve()) {
                Ok(()) => {
                    let change = connection.watch_room(&self.readiness, socket_key(key));
                    if connection.session.goes_on_asking() {
                        self.asking.push_back(key);
                    }
                    if change != 0 {
                        self.full = self.full.saturating_add_signed(change);
                        self.may_be_listed(key);
                    }
                }
                Err(end) => self.finish(key, end),
            }
        }
    }

    /// Ends a session. Its locks are free when this returns, unless its process is ending and has not ended, or
    /// others have inherited them.
    fn finish(&mut self, key: usize, end: End) {
        let Some(connection) = self.connections.try_remove(key) else { return };
        self.frames.retain(|frame| frame.key != key);
        self.unread.retain(|unread| unread.key / 2 != key);
        self.asking.retain(|asker| *asker != key);
        self.full -= usize::from(connection.watches_room());
        connection.leave(&self.readiness, socket_key(key), process_key(key));
        let daemon = &self.daemon;
        // A panic was logged.
        let _ = caught(|| {
            connection.end(daemon, end);
            Ok(())
        });
    }
}

/// Does this for a session. A panic ends the session, as any other end does: the locks of its client are free.
fn caught<T>(act: impl FnOnce() -> Result<T, End>) -> Result<T, End> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        tracing::error!(target: LOGS, "a session panicked; the locks of its client are free");
        Err(End::Panicked)
    })
}
