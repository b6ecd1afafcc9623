//! A session: one connection, and the agents of the client at its other end.
//!
//! One task that never waits in the middle of anything: it hears what there is to hear, says what
//! there is to say, and sleeps until there is more. A client that does not listen is not heard
//! any more once [`HIGH_WATER`] bytes wait for it, so that it costs the daemon a bounded amount of
//! memory and its neighbours nothing.

use std::{
    collections::{HashMap, HashSet},
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use futures_util::{Sink, StreamExt, stream::FuturesUnordered, task::noop_waker_ref};
use navlock_core::{ClientId, Error, LockInfo, LockManager, LockManagerSnapshot, Lost, UserAgent};
use navlock_engine::{RequestId, RequestKind, ResourceName};
use navlock_wire::{
    Agent, CodecError, DaemonCodec, Failure, FromDaemon, MAX_BUCKET, Query, SnapshotEntry,
    ToDaemon, negotiate,
};
use tokio::net::UnixStream;
use tokio_util::codec::{Decoder, Framed};

use super::{
    Limits,
    requests::{Outcome, Requests},
};

/// With so many bytes waiting to be sent, nothing more is heard.
const HIGH_WATER: usize = 256 << 10;

/// How many messages are heard before the other sessions have their turn.
const TURN: usize = 128;

/// For one agent that may be, so many that may not are kept apart; they take a few bytes each.
const REFUSED_FOR_ONE: usize = 16;

/// About how long a part of a snapshot is, in bytes; one entry may be longer.
const PART: usize = 64 << 10;

/// What an entry of a snapshot takes besides its name, at most.
const ENTRY_OVERHEAD: usize = 32;

/// Why a session ends.
#[derive(Debug)]
#[expect(dead_code, reason = "for those who debug the daemon")]
pub(super) enum End {
    /// The client is gone.
    Gone,
    /// The client said what no client says.
    Nonsense(&'static str),
    /// The connection failed, or carried no messages.
    Stream(CodecError),
}

/// The state of one session.
pub(super) struct Session {
    stream: Stream,
    user_agent: UserAgent,
    limits: Limits,
    agents: HashMap<Agent, LockManager>,
    /// The agents that were too many. What they ask for fails.
    refused: HashSet<Agent>,
    requests: Requests,
    queries: FuturesUnordered<QueryFuture>,
    /// Snapshots on their way; no further message is heard before they are sent.
    snapshots: Vec<SnapshotParts>,
}

type Stream = Framed<UnixStream, DaemonCodec>;
type QueryFuture = Pin<Box<dyn Future<Output = Answered> + Send>>;
type Answered = (Query, Result<LockManagerSnapshot, Error>);

impl Session {
    pub(super) fn new(stream: UnixStream, user_agent: UserAgent, limits: Limits) -> Self {
        Self {
            stream: DaemonCodec::default().framed(stream),
            user_agent,
            limits,
            agents: HashMap::new(),
            refused: HashSet::new(),
            requests: Requests::default(),
            queries: FuturesUnordered::new(),
            snapshots: Vec::new(),
        }
    }

    /// Agrees on a version.
    pub(super) async fn shake_hands(&mut self) -> Result<(), End> {
        let hello = self.stream.next().await.ok_or(End::Gone)?.map_err(End::Stream)?;
        let ToDaemon::Hello { oldest, newest } = hello else {
            return Err(End::Nonsense("it did not begin with Hello"));
        };
        if let Some(version) = negotiate(oldest, newest) {
            return self.say(&FromDaemon::Welcome { version });
        }
        let reason = format!(
            "it speaks version {} of the protocol and you {oldest} to {newest}; \
             end its process, and a new one starts",
            navlock_wire::VERSION
        );
        self.say(&FromDaemon::Refused { reason })?;
        poll_fn(|context| flush(&mut self.stream, context)).await.map_err(End::Stream)?;
        Err(End::Nonsense("it speaks another version"))
    }

    /// Serves the client until it is gone.
    pub(super) async fn serve(mut self) -> End {
        poll_fn(|context| self.poll_turn(context)).await
    }

    /// One turn: says and hears what there is. Ready when the session has ended.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<End> {
        match self.turn(context) {
            Ok(More::Later) => Poll::Pending,
            Ok(More::Now) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(end) => Poll::Ready(end),
        }
    }

    fn turn(&mut self, context: &mut Context<'_>) -> Result<More, End> {
        let mut more = More::Now;
        for _ in 0..TURN {
            if !self.has_room() || !self.snapshots.is_empty() {
                break;
            }
            match self.stream.poll_next_unpin(context) {
                Poll::Ready(Some(message)) => self.hear(message.map_err(End::Stream)?)?,
                Poll::Ready(None) => return Err(End::Gone),
                Poll::Pending => {
                    more = More::Later;
                    break;
                }
            }
        }
        // Bounded by the number of live requests, whether there is room or not.
        while let Poll::Ready((request, outcome)) = self.requests.poll_outcome(context) {
            self.say(&tell(request, outcome))?;
        }
        while let Poll::Ready(Some(answered)) = self.queries.poll_next_unpin(context) {
            self.answer(answered)?;
        }
        self.send(context)?;
        // While a client does not listen it is not heard: what is sent wakes us when it does.
        let stuck = !self.has_room() || !self.snapshots.is_empty();
        Ok(if stuck { More::Later } else { more })
    }

    /// Sends what is waiting, as far as the client takes it, and lets snapshots follow.
    fn send(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        loop {
            while self.has_room() {
                let Some(snapshot) = self.snapshots.last_mut() else {
                    break;
                };
                let (part, last) = snapshot.next_part();
                if last {
                    self.snapshots.pop();
                }
                self.say(&part)?;
            }
            match flush(&mut self.stream, context) {
                Poll::Ready(Ok(())) if self.snapshots.is_empty() => return Ok(()),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Err(End::Stream(error)),
                Poll::Pending => return Ok(()),
            }
        }
    }

    fn has_room(&self) -> bool {
        self.stream.write_buffer().len() < HIGH_WATER
    }

    /// Puts a message where it will be sent from.
    fn say(&mut self, message: &FromDaemon) -> Result<(), End> {
        Pin::new(&mut self.stream).start_send(message).map_err(End::Stream)
    }

    fn hear(&mut self, message: ToDaemon) -> Result<(), End> {
        match message {
            ToDaemon::OpenAgent { agent, client_id, bucket } => {
                if self.agents.contains_key(&agent) || self.refused.contains(&agent) {
                    return Err(End::Nonsense("it opened an agent twice"));
                }
                if bucket.len() > MAX_BUCKET {
                    return Err(End::Nonsense("its bucket's name is too long"));
                }
                if self.agents.len() >= self.limits.agents {
                    if self.refused.len() >= REFUSED_FOR_ONE * self.limits.agents {
                        return Err(End::Nonsense("it opened far too many agents"));
                    }
                    self.refused.insert(agent);
                    return Ok(());
                }
                let client_id = ClientId::from_bytes(client_id);
                let locks = self.user_agent.bucket(&bucket).lock_manager_as(client_id);
                self.agents.insert(agent, locks);
                Ok(())
            }
            ToDaemon::CloseAgent { agent } if self.refused.remove(&agent) => Ok(()),
            ToDaemon::Terminate { agent } if self.refused.contains(&agent) => Ok(()),
            ToDaemon::CloseAgent { agent } => {
                let locks = self.agents.remove(&agent).ok_or(NO_AGENT)?;
                locks.terminate();
                Ok(())
            }
            ToDaemon::Terminate { agent } => {
                self.agents.get(&agent).ok_or(NO_AGENT)?.terminate();
                Ok(())
            }
            ToDaemon::Request { agent, request, name, kind } => {
                self.request(agent, request, name, kind)
            }
            ToDaemon::Finish { request } => {
                self.requests.finish(request);
                Ok(())
            }
            ToDaemon::Query { query, bucket } => self.query(query, &bucket),
            _ => Err(End::Nonsense("it greeted twice")),
        }
    }

    fn request(
        &mut self,
        agent: Agent,
        request: RequestId,
        name: ResourceName,
        kind: RequestKind,
    ) -> Result<(), End> {
        if self.refused.contains(&agent) {
            let failure = Failure::Refused(format!(
                "the broker keeps at most {} lock managers for one connection; drop some",
                self.limits.agents
            ));
            return self.say(&FromDaemon::Failed { request, failure });
        }
        let locks = self.agents.get(&agent).ok_or(NO_AGENT)?.clone();
        if self.requests.contains(request) {
            return Err(End::Nonsense("it used the number of a request twice"));
        }
        if self.requests.len() >= self.limits.requests
            || self.requests.name_bytes() >= self.limits.name_bytes
        {
            let failure = Failure::Refused(format!(
                "the broker keeps at most {} requests with {} bytes of names for one connection; \
                 release some, or wait for fewer at a time",
                self.limits.requests, self.limits.name_bytes
            ));
            return self.say(&FromDaemon::Failed { request, failure });
        }
        match self.requests.request(request, locks, name, kind) {
            Some(outcome) => self.say(&tell(request, outcome)),
            None => Ok(()),
        }
    }

    fn query(&mut self, query: Query, bucket: &str) -> Result<(), End> {
        if self.queries.len() >= self.limits.queries {
            let failure = Failure::Refused("too many queries at once; await some first".to_owned());
            return self.say(&FromDaemon::QueryFailed { query, failure });
        }
        let locks = self.user_agent.lock_manager(bucket);
        let mut answer: QueryFuture = Box::pin(async move { (query, locks.query().await) });
        // Now: it must see what came before it and not what comes after. Whom to wake, if it is
        // not there yet, it is told when the set is asked.
        match answer.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(answered) => self.answer(answered),
            Poll::Pending => {
                self.queries.push(answer);
                Ok(())
            }
        }
    }

    fn answer(&mut self, (query, snapshot): Answered) -> Result<(), End> {
        match snapshot {
            Ok(snapshot) => {
                self.snapshots.push(SnapshotParts::new(query, snapshot));
                Ok(())
            }
            Err(error) => self.say(&FromDaemon::QueryFailed { query, failure: failure(&error) }),
        }
    }
}

/// Sends what is waiting. Pending while the client does not take all of it.
fn flush(stream: &mut Stream, context: &mut Context<'_>) -> Poll<Result<(), CodecError>> {
    Sink::<&FromDaemon>::poll_flush(Pin::new(stream), context)
}

const NO_AGENT: End = End::Nonsense("it spoke for an agent that it had not opened");

impl Drop for Session {
    /// What the client had ends at once, and each agent's all in one.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    fn drop(&mut self) {
        for locks in self.agents.values() {
            locks.terminate();
        }
    }
}

/// Whether there may be more to do at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Now,
    Later,
}

fn tell(request: RequestId, outcome: Outcome) -> FromDaemon {
    match outcome {
        Outcome::Granted(token) => FromDaemon::Granted { request, token },
        Outcome::Unavailable => FromDaemon::Unavailable { request },
        Outcome::Failed(error) => FromDaemon::Failed { request, failure: failure(&error) },
        Outcome::Lost(lost) => {
            let how = match lost {
                Lost::Stolen => navlock_wire::Lost::Stolen,
                Lost::Terminated => navlock_wire::Lost::Terminated,
                Lost::Closed => navlock_wire::Lost::Closed,
                // Also what this version has no word for: gone is gone.
                _ => navlock_wire::Lost::Disconnected,
            };
            FromDaemon::Lost { request, how }
        }
    }
}

fn failure(error: &Error) -> Failure {
    match error {
        Error::Terminated => Failure::Terminated,
        Error::Closed => Failure::Closed,
        Error::Refused(why) => Failure::Refused(why.clone()),
        other => Failure::Other(other.to_string()),
    }
}

/// A snapshot that is sent part by part, each made when there is room for it.
struct SnapshotParts {
    query: Query,
    held: vec::IntoIter<LockInfo>,
    pending: vec::IntoIter<LockInfo>,
}

impl SnapshotParts {
    fn new(query: Query, snapshot: LockManagerSnapshot) -> Self {
        let LockManagerSnapshot { held, pending, .. } = snapshot;
        Self { query, held: held.into_iter(), pending: pending.into_iter() }
    }

    /// The next part, and whether it is the last.
    fn next_part(&mut self) -> (FromDaemon, bool) {
        let mut room = PART;
        let held = take(&mut self.held, &mut room);
        let pending = take(&mut self.pending, &mut room);
        let last = self.held.len() + self.pending.len() == 0;
        (FromDaemon::Snapshot { query: self.query, held, pending, last }, last)
    }
}

/// Takes entries while there is room; the last may go over.
fn take(from: &mut vec::IntoIter<LockInfo>, room: &mut usize) -> Vec<SnapshotEntry> {
    let mut taken = Vec::new();
    while *room > 0 {
        let Some(LockInfo { name, mode, client_id, .. }) = from.next() else {
            break;
        };
        *room = room.saturating_sub(name.as_bytes().len() + ENTRY_OVERHEAD);
        taken.push(SnapshotEntry { name, mode, client_id: client_id.to_bytes() });
    }
    taken
}
