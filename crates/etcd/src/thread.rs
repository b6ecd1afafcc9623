//! The thread that speaks to etcd for one connection.
//!
//! Callers leave [messages](Message) for the thread, and are woken by their wakers. No call waits
//! for the thread. It is one task on a runtime of its own, with further tasks for the watches and
//! for each lease.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, mpsc as blocking},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use navlock_core::{
    ClientId, Error,
    host::{Eviction, Unheard},
};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    calls,
    failure::Failure,
    formats,
    hash::HashState,
    keep_alive,
    keeper::{Call, Done, Keeper, Message, Shared},
    keys::BucketKeys,
    lease::{self, LeaseName, Renewal, Share},
    left::{self, Held},
    load::about,
    members::Members,
    options::EtcdOptions,
    silence::Silences,
    watch,
};

/// How often the keeper's [`handle_tick`](Keeper::handle_tick) is called.
const TICK: Duration = Duration::from_millis(200);

/// For how long, after its owners have gone, the thread still tells etcd what has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// An order to the thread.
pub(crate) enum Order {
    Handle(Message),
    /// Ends the leases that others have left; see [`left::revoke`].
    Revoke(Vec<Share>, oneshot::Sender<bool>),
    /// Takes a name away from the holders that were seen; see [`left::evict`].
    Evict(Held, oneshot::Sender<Result<Eviction, Error>>),
    /// Finds out which of these leases are silent.
    Silences(Vec<i64>, oneshot::Sender<HashMap<i64, Unheard, HashState>>),
    /// The owners have gone. The thread drops the sender when etcd has been told everything.
    Quit(blocking::SyncSender<()>),
}

/// The state of the thread.
pub(crate) struct Thread {
    keeper: Keeper,
    options: EtcdOptions,
    members: Members,
    tell: mpsc::WeakUnboundedSender<Order>,
    heard: mpsc::UnboundedReceiver<Order>,
    running: FuturesUnordered<BoxFuture<'static, Option<Done>>>,
    /// The task that watches all names.
    watching: mpsc::UnboundedSender<watch::Order>,
    /// The tasks that keep leases, and what wakes them to renew them at once.
    leases: HashMap<i64, (JoinHandle<()>, Arc<Notify>), HashState>,
    silences: Silences,
    quitting: Option<(Instant, blocking::SyncSender<()>)>,
    /// Whether nobody can send orders any more.
    is_deaf: bool,
}

impl Thread {
    pub(crate) fn new(
        shared: Arc<Shared>,
        options: EtcdOptions,
        members: Members,
        tell: mpsc::WeakUnboundedSender<Order>,
        heard: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        let owner = u128::from_be_bytes(ClientId::random().to_bytes());
        let (watching, watched) = mpsc::unbounded_channel();
        let told = tell.clone();
        let word = move |watch, watched| {
            if let Some(tell) = told.upgrade() {
                let _ = tell.send(Order::Handle(Message::Watched { watch, watched }));
            }
        };
        // The task ends together with this thread, which has the only sender.
        let nothing = BucketKeys::nothing(&options.namespace);
        let check = watch::Check::new(nothing, lease::pause(options.time_to_live));
        tokio::spawn(watch::watch(members.clone(), watched, check, options.call(), word));
        Self {
            keeper: Keeper::new(shared, options.clone(), owner),
            options,
            members,
            tell,
            heard,
            running: FuturesUnordered::new(),
            watching,
            leases: HashMap::default(),
            silences: Silences::default(),
            quitting: None,
            is_deaf: false,
        }
    }

    /// Serves until the owners are gone.
    pub(crate) async fn run(mut self) {
        let mut tick = Instant::now() + TICK;
        loop {
            tokio::select! {
                biased;
                order = self.heard.recv(), if !self.is_deaf => match order {
                    Some(Order::Handle(message)) => self.keeper.handle_message(message),
                    Some(Order::Revoke(leases, answer)) => self.revoke_left(leases, answer),
                    Some(Order::Evict(held, answer)) => self.evict(held, answer),
                    Some(Order::Silences(leases, answer)) => self.silences(leases, answer),
                    Some(Order::Quit(told)) => {
                        self.quitting = Some((Instant::now() + END_TIMEOUT, told));
                        self.keeper.quit();
                    }
                    None if self.quitting.is_none() => return,
                    None => self.is_deaf = true,
                },
                Some(done) = self.running.next(), if !self.running.is_empty() => {
                    if let Some(done) = done {
                        self.keeper.handle_done(done);
                    }
                }
                () = sleep_until(tick), if !self.keeper.is_idle() || self.quitting.is_some() => {
                    self.keeper.handle_tick();
                    tick = Instant::now() + TICK;
                }
            }
            while let Some(call) = self.keeper.poll_call() {
                self.make(call);
            }
            if let Some((until, _)) = &self.quitting {
                let is_late = *until <= Instant::now();
                if is_late || self.running.is_empty() && self.heard.is_empty() {
                    return;
                }
            }
        }
    }

    /// The keeper takes no part in this, because these are not its leases.
    fn revoke_left(&mut self, left: Vec<Share>, answer: oneshot::Sender<bool>) {
        let spared = self.keeper.spared().clone();
        let revoked = left::revoke(self.members.clone(), self.options.clone(), left, spared);
        let told = revoked.map(|is_over| {
            // If the caller has gone, nobody receives this.
            let _ = answer.send(is_over);
            None
        });
        self.running.push(told.boxed());
    }

    /// The keeper takes no part in this. It hears of the result by its watches, as of everything
    /// that others do.
    fn evict(&mut self, held: Held, answer: oneshot::Sender<Result<Eviction, Error>>) {
        let evicted = left::evict(self.members.clone(), self.options.clone(), held);
        let told = evicted.map(|evicted| {
            let _ = answer.send(evicted.map_err(Failure::error));
            None
        });
        self.running.push(told.boxed());
    }

    /// The keeper takes no part in this either.
    fn silences(
        &mut self,
        leases: Vec<i64>,
        answer: oneshot::Sender<HashMap<i64, Unheard, HashState>>,
    ) {
        let (silences, members) = (self.silences.clone(), self.members.clone());
        let told = async move {
            let _ = answer.send(silences.among(&members, leases).await);
            None
        };
        self.running.push(told.boxed());
    }

    /// Makes a call of the keeper. The outcome of the call goes to the keeper.
    fn make(&mut self, call: Call) {
        let timeout = self.options.call();
        let members = self.members.clone();
        let running = match call {
            Call::Operate { of, transaction, turn } => {
                calls::transact(members, transaction, turn, timeout)
                    .map(|result| Some(Done::Operated(of, result)))
                    .boxed()
            }
            Call::Pause { of, delay } => {
                sleep(about(delay)).map(|()| Some(Done::Paused(of))).boxed()
            }
            Call::List { of, known, prefix, most, at, delay } => {
                calls::list(members, prefix, (most, at), delay, timeout)
                    .map(move |result| Some(Done::Listed(of, known, result)))
                    .boxed()
            }
            Call::Lease { delay } => {
                self.lease(delay).map(|leased| Some(Done::Leased(leased))).boxed()
            }
            Call::Revoke { lease } => {
                calls::revoke(members, lease, self.options.time_to_live, timeout)
                    .map(|()| None)
                    .boxed()
            }
            Call::LookUnder { lease, why } => async move {
                let found = calls::under(&members, lease, timeout).await;
                Some(Done::Under(lease, why, found.map(|under| under.keys)))
            }
            .boxed(),
            Call::Write { transaction } => {
                calls::transaction(members, transaction, timeout).map(|_| None).boxed()
            }
            Call::Adopt { of, transaction } => calls::transaction(members, transaction, timeout)
                .map(move |result| Some(Done::Adopted(of, result)))
                .boxed(),
            Call::Describe { of, transaction } => calls::transaction(members, transaction, timeout)
                .map(move |_| Some(Done::Described(of)))
                .boxed(),
            Call::Keep { lease, time_to_live } => return self.keep(lease, time_to_live),
            Call::LetGo { lease } => {
                if let Some((keep, _)) = self.leases.remove(&lease) {
                    keep.abort();
                }
                return;
            }
            Call::Renew { lease } => {
                if let Some((_, wanted)) = self.leases.get(&lease) {
                    wanted.notify_one();
                }
                return;
            }
            Call::Watch { watch, keys, prefix, from } => {
                let _ = self.watching.send(watch::Order::Watch { watch, keys, prefix, from });
                return;
            }
            Call::Unwatch { watch } => {
                let _ = self.watching.send(watch::Order::Unwatch(watch));
                return;
            }
        };
        self.running.push(running);
    }

    /// Asks for a lease after `delay`.
    fn lease(
        &self,
        delay: Duration,
    ) -> impl Future<Output = Result<(LeaseName, Renewal), Failure>> + use<> {
        let (options, members) = (self.options.clone(), self.members.clone());
        async move {
            sleep(delay).await;
            formats::claim(&members, &options).await?;
            calls::lease(members, options.seconds(), options.call()).await
        }
    }

    /// Renews a lease until it is let go, and tells the keeper of each renewal, and of the lease's end. A new
    /// lease has a `time_to_live`. Without it, the lease is of another connection: etcd is asked for its time
    /// to live, and then the lease is renewed at once.
    fn keep(&mut self, lease: i64, time_to_live: Option<Duration>) {
        let tell = self.tell.clone();
        let word = move |word| {
            if let Some(tell) = tell.upgrade() {
                let _ = tell.send(Order::Handle(Message::Lease { lease, word }));
            }
        };
        let (timeout, members) = (self.options.call(), self.members.clone());
        let mailbox = self.keeper.mailbox();
        let wanted = Arc::new(Notify::new());
        let heard = Arc::clone(&wanted);
        let keep = tokio::spawn(async move {
            keep_alive::keep(members, (lease, mailbox), time_to_live, timeout, &heard, word).await;
        });
        if let Some((before, _)) = self.leases.insert(lease, (keep, wanted)) {
            before.abort();
        }
    }
}
