//! A broker of a history, from its start until it is killed.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::BytesMut;
use futures_util::{FutureExt, future::LocalBoxFuture};
use navlock_core::FencingToken;
use navlock_wire::{Sent, ToDaemon, decode};

use super::{
    client::Link,
    looker::Watcher,
    plan::{PAUSE, Plan, RECOVERY_TIME, Random},
    sockets::SimulatedSocket,
    world::World,
};
use crate::{
    Place,
    client::simulated::SimulatedClient,
    client_files::{ClientFiles, Found},
    clock,
    daemon::{
        claims::Claims,
        connected::ConnectedClient,
        delegations::Delegations,
        maps,
        options::{Limits, Options},
        session::Session,
        session_ends::End,
        shared_client::lock,
        state::Daemon,
        tasks::Running,
        timers::wake_due,
        turns::{State, times::Times, wanted::Wanted},
        user_agent,
    },
};

pub(super) struct Broker {
    world: World,
    number: u64,
    daemon: Arc<Daemon>,
    state: State<World>,
    recovery: Option<LocalBoxFuture<'static, ()>>,
    arriving: Vec<Arriving>,
    /// How many pauses ago it began.
    age: u32,
    watcher: Option<Watcher>,
    tasks: Running,
}

/// A connection whose session has not begun.
struct Arriving {
    client: usize,
    /// When it is hung up on if it has not claimed what it has.
    until: Instant,
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
    pub(super) fn new(plan: &Plan, world: &World, place: &Place, number: u64) -> Self {
        let files = ClientFiles::of(place);
        // This comes before the files of the dead are removed.
        let last = maps::last_token(&files);
        // Those who connect to the first broker have not connected to another one.
        let found =
            if number > 0 { files.find().expect("they are there") } else { Found::default() };
        let options = Options::default();
        // No lock is granted in less than a nanosecond.
        let delegations = plan.delegates.then(|| Delegations::new(0));
        let user_agent = user_agent(FencingToken::new(clock::now().max(last + 1)));
        let daemon = Arc::new(Daemon::new(user_agent, &options, files, &found, delegations));
        daemon.next_turn.begin(Waker::noop().clone());
        let tasks = Running::begin(&daemon.tasks);
        let wanted = Wanted::new(Waker::noop().clone());
        let mut state = State::new(Arc::clone(&daemon), wanted, world.clone());
        state.buffer = vec![0; plan.buffer].into();
        let next = Arc::clone(&daemon);
        let recovery = Some(async move { next.recover(found, RECOVERY_TIME).await }.boxed_local());
        world.get().has_broker = true;
        let random = Random::new(plan.seed.wrapping_add(number));
        let watcher = plan.looks.then(|| Watcher::new(&daemon, random));
        let (world, arriving, age) = (world.clone(), Vec::new(), 0);
        let mut broker =
            Self { world, number, daemon, state, recovery, arriving, age, watcher, tasks };
        broker.go_on();
        broker
    }

    fn join(&mut self, client: usize, session: Session, heard: BytesMut) {
        let world = &mut *self.world.get();
        let late = std::mem::take(&mut world.clients[client].late);
        for operation in late {
            world.complete(operation);
        }
        let of = &mut world.clients[client];
        of.known_by = Some(self.number);
        (of.session, of.link) = (Some(self.state.connections.vacant_key()), Link::Up);
        let times = Times::new(session.connected.ahead);
        let socket = SimulatedSocket::new(&self.world, client);
        self.state.enter(session, None, (socket, heard), times);
    }

    pub(super) fn is_due(&self) -> bool {
        self.state.is_left() || self.daemon.next_turn.is_awaited() || self.world.get().has_news()
    }

    /// Takes a turn, if there is anything to do.
    pub(super) fn turn(&mut self, meanwhile: usize) {
        if self.is_due() {
            let mut world = self.world.get();
            world.begin_turn();
            world.meanwhile = meanwhile;
            drop(world);
            self.state.wait(|| None);
            self.world.get().lags = self.state.has_one;
            let awaiting = self.daemon.next_turn.take();
            self.state.turn();
            for done in awaiting {
                _ = done.send(());
            }
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
        let mut context = Context::from_waker(Waker::noop());
        wake_due();
        self.tasks.go_on(&mut context);
        let is_quiet = self.recovery.is_none() && self.arriving.is_empty();
        if is_quiet && !self.world.get().is_anybody_coming() {
            return;
        }
        self.hear();
        let settled = settle(&mut self.recovery, &mut self.arriving, &mut context);
        for (client, session, heard) in settled {
            self.join(client, session, heard);
        }
    }

    /// Hears what those say whose sessions have not begun.
    fn hear(&mut self) {
        let Self { world, number, daemon, arriving, age, .. } = self;
        let mut world = world.get();
        for (client, of) in world.clients.iter().enumerate() {
            if of.link == Link::Coming && arriving.iter().all(|one| one.client != client) {
                let until = clock::instant() + Limits::default().handshake;
                let (heard, stage) = (BytesMut::new(), Stage::Silent);
                arriving.push(Arriving { client, until, heard, stage });
            }
        }
        let (mut late, is_closing) = (Vec::new(), daemon.recovery.is_closing());
        arriving.retain_mut(|one| {
            let of = &mut world.clients[one.client];
            if !of.lives() {
                return false;
            }
            one.heard.extend_from_slice(&of.sent_and_unread.split());
            let is_heard = matches!(one.stage, Stage::Settling(_));
            let waits = is_heard || is_closing && matches!(one.stage, Stage::Silent);
            while let Some(sent) = (!waits).then(|| decode::<Sent>(&mut one.heard)) {
                let Some(sent) = sent.expect("a client speaks the protocol") else { break };
                let stage = mem::replace(&mut one.stage, Stage::Silent);
                one.stage = match (stage, sent.message) {
                    (_, ToDaemon::Introduce { client, returning }) => {
                        let stands = of.with(SimulatedClient::stands);
                        of.is_in_time = PAUSE * *age < RECOVERY_TIME * 9 / 10
                            && stands
                            && of.known_by != Some(*number);
                        let mut connected = daemon.enter(client, returning, None);
                        connected.ahead = of.plan.clock_is_known.then_some(of.plan.ahead);
                        if !returning {
                            one.stage = settling(daemon, connected, Claims::default());
                            break;
                        }
                        let claims = Claims::by_clock(connected.ahead);
                        Stage::Claiming(connected, claims)
                    }
                    (Stage::Claiming(connected, mut claims), message) => {
                        let more = claims.handle_message(&mut lock(&connected.client), message);
                        if more.expect("a client claims what it may").is_continue() {
                            one.stage = Stage::Claiming(connected, claims);
                            continue;
                        }
                        one.stage = settling(daemon, connected, claims);
                        break;
                    }
                    (stage, _) => stage,
                };
            }
            let is_late = clock::instant() >= one.until && !matches!(one.stage, Stage::Settling(_))
                || is_closing && matches!(one.stage, Stage::Claiming(..));
            late.extend(is_late.then_some(one.client));
            !is_late
        });
        for client in late {
            world.hang_up(client);
        }
    }

    /// Time passes.
    pub(super) fn pause(&mut self) {
        self.age += 1;
        self.daemon.tidy();
        self.go_on();
    }

    /// It is killed: it has no part in what its clients hold any more.
    pub(super) fn kill(self) {
        let Self { daemon, .. } = &self;
        daemon.leaves();
        for client in daemon.all_clients() {
            lock(&client).requests.leave_slots();
        }
    }
}

fn settling(daemon: &Arc<Daemon>, connected: ConnectedClient, claims: Claims) -> Stage {
    let mut session = Session::new(connected, Arc::clone(daemon));
    Stage::Settling(async move { session.settle(claims).await.map(|()| session) }.boxed_local())
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
