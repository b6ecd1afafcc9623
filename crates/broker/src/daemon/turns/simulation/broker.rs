//! A broker of a history, from its start until it is killed.

use std::{
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::BytesMut;
use futures_util::{FutureExt, future::LocalBoxFuture};
use navlock_core::FencingToken;
use navlock_wire::{DaemonCodec, ToDaemon};
use tokio::{
    runtime::Runtime,
    task::{LocalSet, yield_now},
    time,
};
use tokio_util::codec::Decoder;

use super::{
    client::Link,
    looker::Watcher,
    plan::{PAUSE, Plan, RECOVERY_TIME, Random},
    returns::key,
    sockets::SimulatedSocket,
    world::World,
};
use crate::{
    Place,
    client_files::{ClientFiles, Found},
    daemon::{
        claims::Claims,
        connected::ConnectedClient,
        delegations::Delegations,
        options::Options,
        session::Session,
        session_ends::End,
        shared_client::lock,
        state::Daemon,
        turns::{State, times::Times, wanted::Wanted},
        user_agent,
    },
};

/// How many tokens are between the first ones of two brokers.
const TOKENS: u64 = 1_000_000;

pub(super) struct Broker {
    world: World,
    daemon: Arc<Daemon>,
    state: State<World>,
    recovery: Option<LocalBoxFuture<'static, ()>>,
    arriving: Vec<Arriving>,
    /// How many pauses ago it began.
    age: u32,
    watcher: Option<Watcher>,
    /// With a clock of its own.
    runtime: Runtime,
    tasks: LocalSet,
}

/// A connection whose session has not begun.
struct Arriving {
    client: usize,
    heard: BytesMut,
    stage: Stage,
}

enum Stage {
    Silent,
    Claiming(ConnectedClient, Claims),
    Settling(LocalBoxFuture<'static, Result<Session, End>>),
}

impl Broker {
    /// The broker of this number.
    pub(super) fn new(plan: &Plan, world: &World, place: Option<&Place>, number: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let tasks = LocalSet::new();
        let in_it = (runtime.enter(), tasks.enter());
        let files = place.map(ClientFiles::of);
        // Those who connect to the first broker have not connected to another one.
        let found = files.as_ref().filter(|_| number > 0).map(ClientFiles::find);
        let found = found.map_or_else(Found::default, |found| found.expect("the files are there"));
        let options = Options::default();
        let delegations = plan.delegates.then(|| Delegations::new(0));
        let user_agent = user_agent(FencingToken::new(number * TOKENS + 1));
        let daemon = Arc::new(Daemon::new(user_agent, &options, files, &found, delegations));
        let wanted = Wanted::new(Waker::noop().clone());
        let mut state = State::new(Arc::clone(&daemon), wanted, world.clone());
        state.buffer = vec![0; plan.buffer].into();
        let next = Arc::clone(&daemon);
        let recovery = plan
            .kills
            .then(|| async move { next.recover(found, RECOVERY_TIME).await }.boxed_local());
        drop(in_it);
        world.get().has_broker = true;
        let random = Random::new(plan.seed.wrapping_add(number));
        let watcher = plan.looks.then(|| Watcher::new(&daemon, random));
        let (world, arriving, age) = (world.clone(), Vec::new(), 0);
        let mut broker =
            Self { world, daemon, state, recovery, arriving, age, watcher, runtime, tasks };
        broker.go_on();
        broker
    }

    /// The first broker, to which all clients are connected.
    pub(super) fn first(plan: &Plan, world: &World, place: Option<&Place>) -> Self {
        let mut broker = Self::new(plan, world, place, 0);
        for client in 0..plan.clients.len() {
            let key = place.map(|_| key(client));
            let connected = broker.daemon.enter(key, false, None);
            let session = Session::new(connected, Arc::clone(&broker.daemon));
            broker.join(client, session, BytesMut::new());
        }
        broker
    }

    fn join(&mut self, client: usize, session: Session, heard: BytesMut) {
        let of = &mut self.world.get().clients[client];
        (of.session, of.link) = (Some(self.state.connections.vacant_key()), Link::Up);
        let times = Times::new(of.plan.clock_is_known.then_some(of.plan.ahead));
        let socket = SimulatedSocket::new(&self.world, client);
        self.state.enter(session, None, (socket, heard), times);
    }

    pub(super) fn is_due(&self) -> bool {
        self.state.is_left() || self.world.get().has_news()
    }

    /// Takes a turn, if there is anything to do.
    pub(super) fn turn(&mut self, meanwhile: usize) {
        if self.is_due() {
            let mut world = self.world.get();
            world.begin_turn();
            world.meanwhile = meanwhile;
            drop(world);
            self.tasks.block_on(&self.runtime, async {
                self.state.wait(|| false);
                self.state.turn();
            });
        }
        self.look();
        self.go_on();
    }

    /// Whoever looks goes on, and sees what is so.
    fn look(&mut self) {
        let Some(watcher) = self.watcher.as_mut().filter(|_| self.recovery.is_none()) else {
            return;
        };
        watcher.go_on();
        if !self.state.is_left() {
            if let Some(wrong) = watcher.is_wrong() {
                self.world.get().fail(&wrong);
            }
        }
    }

    /// Does what is done between two turns.
    fn go_on(&mut self) {
        let is_quiet = self.recovery.is_none() && self.arriving.is_empty();
        if is_quiet && !self.world.get().is_anybody_coming() {
            return;
        }
        self.hear();
        let Self { recovery, arriving, runtime, tasks, .. } = self;
        let settled = tasks.block_on(runtime, async {
            yield_now().await;
            poll_fn(|context| Poll::Ready(settle(recovery, arriving, context))).await
        });
        for (client, session, heard) in settled {
            self.join(client, session, heard);
        }
    }

    /// Hears what those say whose sessions have not begun.
    fn hear(&mut self) {
        let Self { world, daemon, arriving, age, runtime, tasks, .. } = self;
        let _in_it = (runtime.enter(), tasks.enter());
        let mut world = world.get();
        for (client, of) in world.clients.iter().enumerate() {
            if of.link == Link::Coming && arriving.iter().all(|one| one.client != client) {
                let (heard, stage) = (BytesMut::new(), Stage::Silent);
                arriving.push(Arriving { client, heard, stage });
            }
        }
        arriving.retain_mut(|one| {
            let of = &mut world.clients[one.client];
            if !of.is_alive {
                return false;
            }
            one.heard.extend_from_slice(&of.sent_and_unread.split());
            let is_heard = matches!(one.stage, Stage::Settling(_));
            while let Some(sent) =
                (!is_heard).then(|| DaemonCodec::default().decode(&mut one.heard))
            {
                let Some(sent) = sent.expect("a client speaks the protocol") else { break };
                let stage = mem::replace(&mut one.stage, Stage::Silent);
                one.stage = match (stage, sent.message) {
                    (_, ToDaemon::Introduce { client, returning }) => {
                        of.is_in_time = PAUSE * *age < RECOVERY_TIME * 9 / 10 && of.stands();
                        let ahead = of.plan.clock_is_known.then_some(of.plan.ahead);
                        let connected = daemon.enter(Some(client), returning, None);
                        Stage::Claiming(connected, Claims::by_clock(ahead))
                    }
                    (Stage::Claiming(connected, mut claims), message) => {
                        let more = claims.handle_message(&mut lock(&connected.client), message);
                        if more.expect("a client claims what it may").is_continue() {
                            one.stage = Stage::Claiming(connected, claims);
                            continue;
                        }
                        let mut session = Session::new(connected, Arc::clone(daemon));
                        let settled = async move { session.settle(claims).await.map(|()| session) };
                        one.stage = Stage::Settling(settled.boxed_local());
                        break;
                    }
                    (stage, _) => stage,
                };
            }
            true
        });
    }

    /// Time passes.
    pub(super) fn pause(&mut self) {
        self.age += 1;
        self.tasks.block_on(&self.runtime, time::advance(PAUSE));
        self.go_on();
    }

    /// It is killed: it has no part in what its clients hold any more.
    pub(super) fn kill(self) {
        let Self { daemon, state, recovery, arriving, watcher, runtime, tasks, .. } = self;
        daemon.is_killed();
        tasks.block_on(&runtime, async { drop((state, recovery, arriving, watcher)) });
    }
}

/// A session that begins: of which client, and what was read before.
type Settled = (usize, Session, BytesMut);

fn settle(
    recovery: &mut Option<LocalBoxFuture<'static, ()>>,
    arriving: &mut Vec<Arriving>,
    context: &mut Context<'_>,
) -> Vec<Settled> {
    if recovery.as_mut().is_some_and(|recovery| recovery.poll_unpin(context).is_ready()) {
        *recovery = None;
    }
    let mut settled = Vec::new();
    for mut one in mem::take(arriving) {
        if let Stage::Settling(settles) = &mut one.stage {
            if let Poll::Ready(session) = settles.poll_unpin(context) {
                settled.push((one.client, session.expect("there is room"), one.heard));
                continue;
            }
        }
        arriving.push(one);
    }
    settled
}
