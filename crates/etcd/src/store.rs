//! Etcd as a store: the keeper, and the calls that it makes.
//!
//! The calls are futures on the thread's runtime, with further tasks for the watches and for each lease.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use navlock_core::{ClientId, Error};
use navlock_machines::{
    leases::LeaseCall,
    messages::Message,
    store::{Connected, Shared, Store},
};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    STORE, calls, formats,
    hash::HashState,
    keep_alive,
    keeper::{Call, Done, Keeper, News},
    keys::BucketKeys,
    lease, left,
    load::about,
    members::Members,
    options::EtcdOptions,
    silence::Silences,
    watch,
    watched::Order,
};

/// How often the keeper's [`handle_tick`](Keeper::handle_tick) is called.
const TICK: Duration = Duration::from_millis(200);

/// Etcd, as one connection uses it.
#[expect(missing_debug_implementations, reason = "it is on its thread, and nobody else has one")]
pub struct Etcd {
    keeper: Keeper,
    options: EtcdOptions,
    members: Members,
    /// The news of the tasks, for the keeper.
    tell: mpsc::UnboundedSender<News>,
    news: mpsc::UnboundedReceiver<News>,
    running: FuturesUnordered<BoxFuture<'static, Option<Done>>>,
    /// The task that watches all names.
    watching: mpsc::UnboundedSender<Order>,
    /// The tasks that keep leases, and what wakes them to renew them at once.
    leases: HashMap<i64, (JoinHandle<()>, Arc<Notify>), HashState>,
    silences: Silences,
    /// When the keeper is next told that time has passed.
    tick: Instant,
}

impl Store for Etcd {
    const NAME: &'static str = STORE;

    /// Etcd takes 1.5 MiB in one request.
    const LONGEST_NAME: usize = (1 << 20) + (1 << 18);

    type Options = EtcdOptions;

    async fn connect(options: EtcdOptions, shared: Arc<Shared>) -> Result<Connected<Self>, Error> {
        options.check()?;
        let members = Members::connect(options.clone()).await?;
        formats::look(&members, &options).await?;
        let (link, grace) = (Box::new(members.clone()), options.keeper.times.grace());
        Ok(Connected { store: Self::new(shared, options, members), link, grace })
    }

    fn handle_message(&mut self, message: Message) {
        let (members, options) = (self.members.clone(), self.options.clone());
        match message {
            Message::Revoke { left, answer } => {
                let spared = self.keeper.spared().clone();
                self.run(left::revoke(members, options, left, spared), answer);
            }
            // The keeper hears of the result by its watches, as of everything that others do.
            Message::Evict { bucket, name, seen, answer } => {
                let evicted = left::evict(members, options, bucket, name, seen);
                self.run(
                    evicted.map(|evicted| evicted.map_err(|failure| failure.error(STORE))),
                    answer,
                );
            }
            Message::Silences { leases, answer } => {
                let silences = self.silences.clone();
                self.run(async move { silences.among(&members, leases).await }, answer);
            }
            message => self.keeper.handle_message(message),
        }
        self.make_calls();
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            Some(news) = self.news.recv() => self.keeper.handle_news(news),
            Some(done) = self.running.next(), if !self.running.is_empty() => {
                if let Some(done) = done {
                    self.keeper.handle_done(done);
                }
            }
            () = sleep_until(self.tick), if !self.keeper.is_idle() => {
                self.keeper.handle_tick();
                self.tick = Instant::now() + TICK;
            }
        }
        self.make_calls();
    }

    fn quit(&mut self) {
        self.keeper.quit();
        self.make_calls();
    }

    fn is_done(&self) -> bool {
        self.running.is_empty() && self.news.is_empty()
    }
}

impl Etcd {
    fn new(shared: Arc<Shared>, options: EtcdOptions, members: Members) -> Self {
        let owner = u128::from_be_bytes(ClientId::random().to_bytes());
        let (watching, watched) = mpsc::unbounded_channel();
        let (tell, news) = mpsc::unbounded_channel();
        let told = tell.clone();
        let word = move |watch, watched| {
            let _ = told.send(News::Watched { watch, watched });
        };
        // The task ends together with the store, which has the only sender.
        let nothing = BucketKeys::nothing(&options.keeper.namespace);
        let check = watch::Check::new(nothing, lease::pause(options.keeper.times.time_to_live));
        tokio::spawn(watch::watch(
            members.clone(),
            watched,
            check,
            options.keeper.times.call(),
            word,
        ));
        Self {
            keeper: Keeper::new(STORE, shared, options.keeper.clone(), owner),
            options,
            members,
            tell,
            news,
            running: FuturesUnordered::new(),
            watching,
            leases: HashMap::default(),
            silences: Silences::default(),
            tick: Instant::now() + TICK,
        }
    }

    /// Runs what the keeper takes no part in. If the caller has gone, nobody receives the answer.
    fn run<T: Send + 'static>(
        &self,
        outcome: impl Future<Output = T> + Send + 'static,
        answer: oneshot::Sender<T>,
    ) {
        self.running.push(outcome.map(|outcome| drop(answer.send(outcome))).map(|()| None).boxed());
    }

    fn make_calls(&mut self) {
        while let Some(call) = self.keeper.poll_call() {
            self.make(call);
        }
    }

    /// Makes a call of the keeper. The outcome of the call goes to the keeper.
    fn make(&mut self, call: Call) {
        let timeout = self.options.keeper.times.call();
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
            Call::Lease(LeaseCall::Begin { delay }) => {
                let options = self.options.clone();
                let leased = async move {
                    sleep(delay).await;
                    formats::claim(&members, &options).await?;
                    calls::lease(members, options.seconds(), timeout).await
                };
                leased.map(|leased| Some(Done::Leased(leased))).boxed()
            }
            Call::Lease(LeaseCall::Revoke { lease }) => {
                calls::revoke(members, lease, self.options.keeper.times.time_to_live, timeout)
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
            Call::Lease(LeaseCall::Keep { lease, time_to_live }) => {
                return self.keep(lease, time_to_live);
            }
            Call::Lease(LeaseCall::LetGo { lease }) => {
                if let Some((keep, _)) = self.leases.remove(&lease) {
                    keep.abort();
                }
                return;
            }
            Call::Lease(LeaseCall::Renew { lease }) => {
                if let Some((_, wanted)) = self.leases.get(&lease) {
                    wanted.notify_one();
                }
                return;
            }
            Call::Watch { watch, keys, prefix, from } => {
                let _ = self.watching.send(Order::Watch { watch, keys, prefix, from });
                return;
            }
            Call::Unwatch { watch } => {
                let _ = self.watching.send(Order::Unwatch(watch));
                return;
            }
        };
        self.running.push(running);
    }

    /// Renews a lease until it is let go, and tells the keeper of each renewal, and of the lease's end. A new
    /// lease has a `time_to_live`. Without it, the lease is of another connection: etcd is asked for its time
    /// to live, and then the lease is renewed at once.
    fn keep(&mut self, lease: i64, time_to_live: Option<Duration>) {
        let tell = self.tell.clone();
        let word = move |word| {
            let _ = tell.send(News::Lease { lease, word });
        };
        let (timeout, members) = (self.options.keeper.times.call(), self.members.clone());
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
