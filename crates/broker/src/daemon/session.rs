//! A session: one connection, and the agents of the client at its other end.
//!
//! One task that never waits in the middle of anything: it hears what there is to hear, says what
//! there is to say, and sleeps until there is more. A client that does not listen is not heard
//! any more once [`HIGH_WATER`] bytes wait for it, so that it costs the daemon a bounded amount of
//! memory and its neighbours nothing.

use std::{
    future::{Future, poll_fn},
    io::ErrorKind,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use futures_util::{Sink, StreamExt, stream::FuturesUnordered, task::noop_waker_ref};
use navlock_core::{ClientId, Error, Inspection, LockManagerSnapshot, RequestKind, ResourceName};
use navlock_wire::{
    CodecError, DaemonCodec, Failure, FromDaemon, OLDEST_VERSION, Query, ToDaemon, VERSION,
    negotiate,
};
use tokio::net::UnixStream;
use tokio_util::codec::{Decoder, Framed};

use super::{
    answers::{InspectionParts, Parts, SnapshotParts},
    client::{Nonsense, failure, tell},
    house::{House, Stay, lock},
    recovery::Claims,
};

/// With so many bytes waiting to be sent, nothing more is heard.
const HIGH_WATER: usize = 256 << 10;

/// How many messages are heard before the other sessions have their turn.
const TURN: usize = 128;

/// Why a session ends.
#[derive(Debug)]
#[expect(dead_code, reason = "for those who debug the daemon")]
pub(super) enum End {
    /// The client is gone.
    Gone,
    /// The client said what no client says.
    Nonsense(Nonsense),
    /// The client speaks another version of the protocol.
    Foreign,
    /// The connection failed, or carried no messages.
    Stream(CodecError),
}

/// A connection before it is known whose it is.
pub(super) struct Newcomer {
    stream: Stream,
    house: Arc<House>,
}

/// The state of one session.
pub(super) struct Session {
    stream: Stream,
    stay: Stay,
    house: Arc<House>,
    version: u16,
    queries: FuturesUnordered<QueryFuture>,
    /// Answers on their way; no further message is heard before they are sent.
    answers: Vec<Parts>,
}

type Stream = Framed<UnixStream, DaemonCodec>;
type QueryFuture = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// What was asked, and what there is to be said to it.
enum Answered {
    Query(Query, Result<LockManagerSnapshot, Error>),
    Inspect(Query, String, Option<ResourceName>, Result<Inspection, Error>),
}

impl Newcomer {
    pub(super) fn new(stream: UnixStream, house: Arc<House>) -> Self {
        Self { stream: DaemonCodec::default().framed(stream), house }
    }

    /// Agrees on a version and hears who it is and what it claims.
    pub(super) async fn introduce(mut self) -> Result<(Session, Claims), End> {
        let version = self.shake_hands().await?;
        let mut claims = Claims::default();
        let stay = if version == 1 {
            self.house.enter(None, false)
        } else {
            let ToDaemon::Introduce { client, returning } = self.next().await? else {
                return Err(Nonsense("it did not introduce itself").into());
            };
            let stay = self.house.enter(Some(client), returning);
            if returning {
                loop {
                    let message = self.next().await?;
                    if claims.hear(&mut lock(&stay.client), message)?.is_break() {
                        break;
                    }
                }
            }
            stay
        };
        let Self { stream, house } = self;
        let queries = FuturesUnordered::new();
        Ok((Session { stream, stay, house, version, queries, answers: Vec::new() }, claims))
    }

    /// Agrees on a version.
    async fn shake_hands(&mut self) -> Result<u16, End> {
        let ToDaemon::Hello { oldest, newest } = self.next().await? else {
            return Err(Nonsense("it did not begin with Hello").into());
        };
        let version = negotiate(oldest, newest);
        let answer = match version {
            Some(version) => FromDaemon::Welcome { version },
            None => FromDaemon::Refused {
                reason: format!(
                    "it speaks versions {OLDEST_VERSION} to {VERSION} of the protocol and you \
                     {oldest} to {newest}; `navlock daemon stop` ends it, and a new one starts"
                ),
            },
        };
        Pin::new(&mut self.stream).start_send(&answer).map_err(End::Stream)?;
        poll_fn(|context| flush(&mut self.stream, context)).await.map_err(End::Stream)?;
        version.ok_or(End::Foreign)
    }

    async fn next(&mut self) -> Result<ToDaemon, End> {
        self.stream.next().await.ok_or(End::Gone)?.map_err(End::Stream)
    }
}

impl Session {
    /// Waits until claims are settled, those of this client and all others.
    pub(super) async fn settle(&mut self, claims: Claims) -> Result<(), End> {
        self.house.admit(&self.stay, claims).await;
        if self.version == 1 {
            return Ok(());
        }
        self.say(&FromDaemon::Settled)
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
            if !self.has_room() || !self.answers.is_empty() {
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
        self.say_outcomes(context)?;
        // FAST: to ask an empty set has its price.
        while !self.queries.is_empty() {
            let Poll::Ready(Some(answered)) = self.queries.poll_next_unpin(context) else {
                break;
            };
            self.answer(answered)?;
        }
        self.send(context)?;
        // While a client does not listen it is not heard: what is sent wakes us when it does.
        let stuck = !self.has_room() || !self.answers.is_empty();
        Ok(if stuck { More::Later } else { more })
    }

    /// Says what has become of requests and locks. Bounded by the number of live requests, whether
    /// there is room or not.
    fn say_outcomes(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        loop {
            let outcome = lock(&self.stay.client).poll_outcome(context);
            let Poll::Ready((request, outcome)) = outcome else {
                return Ok(());
            };
            self.say(&tell(request, outcome))?;
        }
    }

    /// Sends what is waiting, as far as the client takes it, and lets answers follow.
    fn send(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        loop {
            while self.has_room() {
                let Some(answer) = self.answers.last_mut() else {
                    break;
                };
                let (part, last) = answer.next_part();
                if last {
                    self.answers.pop();
                }
                self.say(&part)?;
            }
            match flush(&mut self.stream, context) {
                Poll::Ready(Ok(())) if self.answers.is_empty() => return Ok(()),
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
        let mut client = lock(&self.stay.client);
        match message {
            ToDaemon::OpenAgent { agent, client_id, bucket } => {
                client.open_agent(agent, ClientId::from_bytes(client_id), bucket)?;
            }
            ToDaemon::Describe { agent, info } => client.describe(agent, info)?,
            ToDaemon::CloseAgent { agent } => client.close_agent(agent)?,
            ToDaemon::Terminate { agent } => client.terminate(agent)?,
            ToDaemon::Request { agent, request, name, kind } => {
                if let Some(outcome) = client.request(agent, request, name, kind)? {
                    drop(client);
                    if kind == RequestKind::Steal {
                        // The victims first, if they are this client's too. Whom to wake for more
                        // is told when it is asked again, at the end of the turn.
                        self.say_outcomes(&mut Context::from_waker(noop_waker_ref()))?;
                    }
                    self.say(&tell(request, outcome))?;
                }
            }
            ToDaemon::Finish { request } => client.finish(request),
            ToDaemon::Query { query, bucket } => {
                drop(client);
                let locks = self.house.user_agent().lock_manager(&bucket);
                let answer = async move { Answered::Query(query, locks.query().await) };
                self.ask(query, Box::pin(answer))?;
            }
            ToDaemon::Inspect { query, bucket, name } => {
                drop(client);
                let locks = self.house.user_agent().lock_manager(&bucket);
                let answer = async move {
                    let inspection = locks.inspect(name.clone()).await;
                    Answered::Inspect(query, bucket, name, inspection)
                };
                self.ask(query, Box::pin(answer))?;
            }
            ToDaemon::Status { query } => {
                drop(client);
                let status = self.house.status();
                self.say(&FromDaemon::Status { query, status })?;
            }
            _ => return Err(Nonsense("it said again what is said once").into()),
        }
        Ok(())
    }

    fn ask(&mut self, query: Query, mut answer: QueryFuture) -> Result<(), End> {
        if self.queries.len() >= self.house.limits().queries {
            let failure = Failure::Refused("too many queries at once; await some first".to_owned());
            return self.say(&FromDaemon::QueryFailed { query, failure });
        }
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

    fn answer(&mut self, answered: Answered) -> Result<(), End> {
        let (query, error) = match answered {
            Answered::Query(query, Ok(snapshot)) => {
                self.answers.push(Parts::Snapshot(SnapshotParts::new(query, snapshot)));
                return Ok(());
            }
            Answered::Inspect(query, bucket, name, Ok(mut inspection)) => {
                self.house.complete(&mut inspection, &bucket, name.as_ref());
                self.answers.push(Parts::Inspection(InspectionParts::new(query, inspection)));
                return Ok(());
            }
            Answered::Query(query, Err(error)) | Answered::Inspect(query, _, _, Err(error)) => {
                (query, error)
            }
        };
        self.say(&FromDaemon::QueryFailed { query, failure: failure(&error) })
    }
}

/// Sends what is waiting. Pending while the client does not take all of it.
///
/// FAST: `Framed` would gather one buffer with `writev`, which costs more than to send it.
fn flush(stream: &mut Stream, context: &mut Context<'_>) -> Poll<Result<(), CodecError>> {
    while !stream.write_buffer().is_empty() {
        match stream.get_ref().try_write(stream.write_buffer()) {
            Ok(sent) => stream.write_buffer_mut().advance(sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                ready!(stream.get_ref().poll_write_ready(context))?;
            }
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
    Poll::Ready(Ok(()))
}

/// Whether there may be more to do at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Now,
    Later,
}

impl From<Nonsense> for End {
    fn from(nonsense: Nonsense) -> Self {
        Self::Nonsense(nonsense)
    }
}
