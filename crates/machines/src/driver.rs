//! What drives the keeper on the thread of a connection, and makes its calls.
//!
//! The calls are futures on the thread's runtime, with further tasks for the watches and for each lease.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use navlock_core::ClientId;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    hash::HashState,
    keeper::{Call, Done, Keeper, News},
    key_store::{KeeperOptions, KeyStore},
    leases::LeaseCall,
    left,
    load::{Turn, about},
    messages::Message,
    shared::Shared,
    silence::Silences,
    watched::Order,
};

/// How often the keeper's [`handle_tick`](Keeper::handle_tick) is called.
const TICK: Duration = Duration::from_millis(200);

/// Drives the keeper of one connection, and makes its calls. It lives on a thread of its own, and is told there what
/// callers want.
///
/// # Calling order
///
/// The thread calls
///
/// - [`handle_message`](Self::handle_message) for what callers want;
/// - [`next`](Self::next) while there is nothing of that;
/// - [`quit`](Self::quit) when the last caller has gone, and then `next` until the driver [is done](Self::is_done).
pub(crate) struct Driver<K> {
    keeper: Keeper,
    options: Arc<KeeperOptions>,
    store: K,
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

impl<K: KeyStore> Driver<K> {
    /// Drives the keeper of this connection. To be called on the runtime of its thread.
    pub(crate) fn new(store: K, options: KeeperOptions, shared: Arc<Shared>) -> Self {
        let owner = u128::from_be_bytes(ClientId::random().to_bytes());
        let (watching, orders) = mpsc::unbounded_channel();
        let (tell, news) = mpsc::unbounded_channel();
        let told = tell.clone();
        let word = move |watch, watched| {
            let _ = told.send(News::Watched { watch, watched });
        };
        // The task ends together with the driver, which has the only sender.
        let of_task = store.clone();
        tokio::spawn(async move { of_task.watch(orders, word).await });
        Self {
            keeper: Keeper::new(K::NAME, shared, options.clone(), owner),
            options: Arc::new(options),
            store,
            tell,
            news,
            running: FuturesUnordered::new(),
            watching,
            leases: HashMap::default(),
            silences: Silences::default(),
            tick: Instant::now() + TICK,
        }
    }

    /// Begins what a caller wants. The outcome goes into the table, or into the answer of the message.
    pub(crate) fn handle_message(&mut self, message: Message) {
        let (store, options) = (self.store.clone(), Arc::clone(&self.options));
        match message {
            Message::Revoke { left, answer } => {
                let spared = self.keeper.spared().clone();
                let revoked = async move { left::revoke(&store, &options, left, &spared).await };
                self.run(revoked, answer);
            }
            // The keeper hears of the result by its watches, as of everything that others do.
            Message::Evict { bucket, name, seen, answer } => {
                let evicted = async move {
                    let evicted = left::evict(&store, &options, &bucket, &name, seen).await;
                    evicted.map_err(|failure| failure.error(K::NAME))
                };
                self.run(evicted, answer);
            }
            Message::Silences { leases, answer } => {
                let silences = self.silences.clone();
                self.run(async move { silences.among(&store, leases).await }, answer);
            }
            message => self.keeper.handle_message(message),
        }
        self.make_calls();
    }

    /// Waits until the store has said something, or something is due, and does what follows.
    ///
    /// # Cancel safety
    ///
    /// It is dropped whenever a caller wants something. Nothing that the store has said is lost then.
    pub(crate) async fn next(&mut self) {
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

    /// Begins to end the connection. What agents have that are left is for another connection to take over, if
    /// there are any, and else the lease of the connection ends.
    pub(crate) fn quit(&mut self) {
        self.keeper.quit();
        self.make_calls();
    }

    /// Whether the store was told everything, and has answered.
    pub(crate) fn is_done(&self) -> bool {
        self.running.is_empty() && self.news.is_empty()
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
        let store = self.store.clone();
        let running = match call {
            Call::Operate { of, transaction, turn } => {
                async move { Some(Done::Operated(of, store.transact(transaction, turn).await)) }
                    .boxed()
            }
            Call::Pause { of, delay } => {
                sleep(about(delay)).map(|()| Some(Done::Paused(of))).boxed()
            }
            Call::List { of, known, prefix, most, at, delay } => async move {
                sleep(delay).await;
                Some(Done::Listed(of, known, store.list(prefix, most, at).await))
            }
            .boxed(),
            Call::Lease(LeaseCall::Begin { delay }) => async move {
                sleep(delay).await;
                Some(Done::Leased(store.begin_lease().await))
            }
            .boxed(),
            Call::Lease(LeaseCall::Revoke { lease }) => async move {
                store.revoke(lease).await;
                None
            }
            .boxed(),
            Call::LookUnder { lease, why } => async move {
                let found = store.under(lease).await;
                Some(Done::Under(lease, why, found.map(|under| under.keys)))
            }
            .boxed(),
            Call::Write { transaction } => async move {
                let _ = store.transact(transaction, Turn::Waits).await;
                None
            }
            .boxed(),
            Call::Adopt { of, transaction } => async move {
                Some(Done::Adopted(of, store.transact(transaction, Turn::Waits).await))
            }
            .boxed(),
            Call::Describe { of, transaction } => async move {
                let _ = store.transact(transaction, Turn::Waits).await;
                Some(Done::Described(of))
            }
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
    /// lease has a `time_to_live`. Without it, the lease is of another connection: the store is asked for its
    /// time to live, and then the lease is renewed at once.
    fn keep(&mut self, lease: i64, time_to_live: Option<Duration>) {
        let tell = self.tell.clone();
        let word = move |word| {
            let _ = tell.send(News::Lease { lease, word });
        };
        let (store, mailbox) = (self.store.clone(), self.keeper.mailbox());
        let wanted = Arc::new(Notify::new());
        let heard = Arc::clone(&wanted);
        let keep = tokio::spawn(async move {
            store.keep(lease, mailbox, time_to_live, heard, word).await;
        });
        if let Some((before, _)) = self.leases.insert(lease, (keep, wanted)) {
            before.abort();
        }
    }
}
