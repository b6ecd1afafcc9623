//! A reach whose locks outlive the daemon that serves them, for the time of a lease; and daemons on it.
//!
//! The reach stands for etcd, as far as a daemon sees of etcd: locks are kept elsewhere, end by
//! themselves, and are reclaimed by the next process.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

use navlock_broker::{
    BrokerReach, ConnectOptions, Place,
    daemon::{self, Options},
};
use navlock_core::{
    ClientId, Error, FencingToken, LockManager, Lost, Mode, ResourceName, UserAgent,
    host::{
        Answer, Backend, Claim, MemoryReach, QueryFuture, Reach, ReclaimFuture, RequestDetails,
        RequestKind, Ticket,
    },
};
use navlock_engine::AgentId;
use navlock_platform::{clock, socket};
use navlock_wire::BootTime;
use tokio::sync::watch;

use crate::daemon::{LONG, soon};

/// This moment, by the clock of terms.
pub(crate) fn uptime() -> Duration {
    Duration::from_nanos(clock::uptime())
}

/// The moment that is this time from now.
pub(crate) fn in_time(time: Duration) -> BootTime {
    BootTime((uptime() + time).as_nanos().try_into().unwrap())
}

/// The service that keeps the locks of one bucket.
#[derive(Debug)]
pub(crate) struct World {
    locks: Box<dyn Backend>,
    kept: Mutex<Kept>,
    /// How many requests were made.
    pub(crate) asked: AtomicUsize,
    /// Whether it answers processes that reclaim locks.
    answers: watch::Sender<bool>,
    /// The wakers of those that wait for answers to requests; `None` unless answers are kept back.
    kept_back: Mutex<Option<Vec<Waker>>>,
}

#[derive(Debug, Default)]
struct Kept {
    agents: HashMap<ClientId, AgentId>,
    requests: Vec<(AgentId, ResourceName, Mode, Ticket)>,
    ends: Option<Duration>,
    reclaimed: Vec<Vec<Claim>>,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            locks: MemoryReach::default().with_shards(1).open_bucket("app"),
            kept: Mutex::default(),
            asked: AtomicUsize::new(0),
            answers: watch::Sender::new(true),
            kept_back: Mutex::default(),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    /// Sets when the locks of all agents end.
    pub(crate) fn end_at(&self, ends: Duration) {
        self.kept().ends = Some(ends);
    }

    /// Ends the leases of all agents.
    pub(crate) fn end_leases(&self) {
        let mut kept = self.kept();
        kept.requests.clear();
        let agents: Vec<_> = kept.agents.drain().map(|(_, agent)| agent).collect();
        drop(kept);
        for agent in agents {
            self.locks.terminate(agent);
        }
    }

    /// Sets whether processes that reclaim locks are answered.
    pub(crate) fn answer(&self, does: bool) {
        self.answers.send_replace(does);
    }

    /// Sets whether the answers to requests, and to reclaimed ones, are kept back.
    pub(crate) fn keep_back(&self, does: bool) {
        let waiting = std::mem::replace(&mut *self.kept_back.lock().unwrap(), does.then(Vec::new));
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether anybody waits for an answer that is kept back.
    pub(crate) fn keeps_waiting(&self) -> bool {
        self.kept_back.lock().unwrap().as_ref().is_some_and(|waiting| !waiting.is_empty())
    }

    /// How many locks and requests it has.
    pub(crate) fn count(&self) -> usize {
        self.kept().requests.len()
    }

    /// The claims that were made on it so far, one list for each reclaim.
    pub(crate) fn reclaimed(&self) -> Vec<Vec<Claim>> {
        self.kept().reclaimed.clone()
    }

    /// Grants a lock, as an agent would have had it through a daemon that is gone.
    pub(crate) fn hold(&self, client_id: ClientId, name: &str) -> FencingToken {
        let name: ResourceName = name.try_into().unwrap();
        let kind = RequestKind::Wait(Mode::Exclusive);
        let agent = self.agent(client_id);
        let (ticket, answer) = self
            .locks
            .request(agent, &name, kind, RequestDetails::default(), Waker::noop())
            .unwrap();
        self.kept().requests.push((agent, name, Mode::Exclusive, ticket));
        let Poll::Ready(Answer::Granted(token)) = answer else { panic!("{answer:?}") };
        token
    }

    fn agent(&self, client_id: ClientId) -> AgentId {
        let mut kept = self.kept();
        *kept.agents.entry(client_id).or_insert_with(|| self.locks.open_agent(client_id))
    }

    fn forget(&self, agent: AgentId) {
        let mut kept = self.kept();
        kept.agents.retain(|_, known| *known != agent);
        kept.requests.retain(|(of, ..)| *of != agent);
    }
}

/// The reach of one process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    world: Arc<World>,
    /// Whether it was not killed. After that, nothing that it does changes anything.
    lives: Arc<AtomicBool>,
}

impl Process {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world), lives: Arc::new(AtomicBool::new(true)) }
    }

    fn lives(&self) -> bool {
        self.lives.load(SeqCst)
    }
}

impl Reach for Process {
    fn open_bucket(&self, _name: &str) -> Box<dyn Backend> {
        Box::new(self.clone())
    }

    fn is_leased(&self) -> bool {
        true
    }
}

impl Backend for Process {
    fn open_agent(&self, client_id: ClientId) -> AgentId {
        self.world.agent(client_id)
    }

    fn close_agent(&self, agent: AgentId) {
        if self.lives() {
            self.world.forget(agent);
            self.world.locks.close_agent(agent);
        }
    }

    fn terminate(&self, agent: AgentId) {
        if self.lives() {
            self.world.forget(agent);
            self.world.locks.terminate(agent);
        }
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        details: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        self.world.asked.fetch_add(1, SeqCst);
        let (ticket, answer) = self.world.locks.request(agent, name, kind, details, waker)?;
        self.world.kept().requests.push((agent, name.clone(), kind.mode(), ticket));
        Ok((ticket, answer))
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        if let Some(waiting) = &mut *self.world.kept_back.lock().unwrap() {
            waiting.push(waker.clone());
            return Poll::Pending;
        }
        self.world.locks.poll_request(ticket, waker)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        self.world.locks.poll_lost(ticket, waker)
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        self.world.locks.lost(ticket)
    }

    fn finish(&self, ticket: Ticket) {
        if self.lives() {
            self.world.kept().requests.retain(|(.., known)| *known != ticket);
            self.world.locks.finish(ticket);
        }
    }

    fn query(&self) -> QueryFuture<'_> {
        self.world.locks.query()
    }

    fn ends(&self, _agent: AgentId) -> Option<Duration> {
        self.world.kept().ends
    }

    fn reclaim(&self, agent: AgentId, claims: Vec<Claim>) -> ReclaimFuture<'_> {
        let mut answers = self.world.answers.subscribe();
        Box::pin(async move {
            let _ = answers.wait_for(|answers| *answers).await;
            let mut kept = self.world.kept();
            let (its, others) =
                kept.requests.drain(..).partition::<Vec<_>, _>(|(of, ..)| *of == agent);
            kept.requests = others;
            let mut its: Vec<_> = its.into_iter().map(Some).collect();
            let found = claims.iter().map(|claim| {
                let is_it = |(_, name, mode, ticket): &(AgentId, ResourceName, Mode, Ticket)| {
                    let answer = self.world.locks.poll_request(*ticket, Waker::noop());
                    let token = match answer {
                        Poll::Ready(Ok(Answer::Granted(token))) => Some(token),
                        _ => None,
                    };
                    *name == claim.name
                        && *mode == claim.kind.mode()
                        && (claim.token.is_none() || claim.token == token)
                };
                let it = its.iter_mut().find(|it| it.as_ref().is_some_and(is_it))?.take()?;
                let ticket = it.3;
                kept.requests.push(it);
                Some(ticket)
            });
            let found = found.collect();
            kept.reclaimed.push(claims);
            drop(kept);
            its.into_iter().flatten().for_each(|(.., ticket)| self.world.locks.finish(ticket));
            found
        })
    }
}

/// A daemon on this reach, and the daemons that follow it. The last one ends when this is dropped.
pub(crate) struct LeasedDaemon {
    pub(crate) world: Arc<World>,
    directory: tempfile::TempDir,
    running: Option<RunningDaemon>,
}

struct RunningDaemon {
    process: Process,
    /// Dropping it ends the daemon.
    end: socket::Stream,
    thread: thread::JoinHandle<()>,
}

impl LeasedDaemon {
    /// A reach on which no daemon runs yet.
    pub(crate) fn new() -> Self {
        let world = World::new();
        world.end_at(uptime() + Duration::from_secs(600));
        Self { world, directory: tempfile::tempdir().unwrap(), running: None }
    }

    pub(crate) fn started() -> Self {
        let mut daemon = Self::new();
        daemon.start();
        daemon
    }

    pub(crate) fn start(&mut self) {
        let process = Process::new(&self.world);
        let (place, reach) = (self.place(), process.clone());
        let (ready, is_ready) = mpsc::channel();
        let (end, told_to_end) = socket::Stream::pair().unwrap();
        let thread = thread::spawn(move || {
            let mut options = Options::default();
            options.idle = None;
            options.end = Some(Arc::new(told_to_end));
            options.reach = Some("a test's world".to_owned());
            let user_agent = |_| Ok(UserAgent::with_reach(reach));
            daemon::run(&place, user_agent, &options, || _ = ready.send(())).unwrap();
        });
        self.running = Some(RunningDaemon { process, end, thread });
        is_ready.recv_timeout(LONG).unwrap();
    }

    /// Ends the daemon as if it had been killed: nobody is told, and nothing is released.
    pub(crate) fn kill(&mut self) {
        let RunningDaemon { process, end: _end, thread } = self.running.take().unwrap();
        process.lives.store(false, SeqCst);
        // The daemon ends by itself when it finds another socket in its place. Until then nothing that it
        // does changes anything.
        let (other, socket) = (self.path().join("other"), self.place());
        drop(socket::Listener::bind(&other).unwrap());
        std::fs::rename(&other, socket.socket()).unwrap();
        thread.join().unwrap();
        std::fs::remove_file(socket.socket()).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn place(&self) -> Place {
        Place::at(self.path().join("sock"))
    }

    /// A connection of its own, as another program would have.
    pub(crate) fn client(&self) -> UserAgent {
        let options = ConnectOptions::default().place(self.place()).program("/nonexistent");
        UserAgent::with_reach(soon(BrokerReach::connect(options)).unwrap())
    }

    /// The locks of the bucket `app`, as another program sees them.
    pub(crate) fn locks(&self) -> LockManager {
        self.client().lock_manager("app")
    }
}

impl Drop for LeasedDaemon {
    fn drop(&mut self) {
        // Before its directory is removed: by Wine, that of a daemon that still runs is never
        // empty, and whoever removes it tries for ever.
        if let Some(RunningDaemon { end, thread, .. }) = self.running.take() {
            drop(end);
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the daemon has panicked");
        }
    }
}
