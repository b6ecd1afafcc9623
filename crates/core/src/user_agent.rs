//! User agents: the owners of all buckets.

mod looking;

use std::{collections::HashMap, fmt, sync::OnceLock, time::Duration};

use foldhash::quality::RandomState;

use self::looking::{Lookers, MemoryLook};
use crate::{
    Bucket, ClientId, Error, FencingToken, ResourceName,
    agent::Agent,
    backend::{AnyReach, Backend, Eviction, MemoryReach, Reach},
    bucket::{BucketUse, OpenBucket},
    life::Ended,
    look::{LookOptions, Looker},
    sync::{Arc, AtomicBool, Mutex, Ordering, Weak, lock, shrink},
};

/// The owner of a set of buckets. Two user agents never see each other's locks, as private
/// browsing sessions, profiles and test cases must not.
///
/// Cheap to clone; the clones are the same user agent.
///
/// Spec: "user agent", <https://w3c.github.io/web-locks/#private-browsing>
#[derive(Clone)]
pub struct UserAgent(Arc<Scope>);

/// What was opened through one [`UserAgent`] and its clones, and is closed with it. Mostly that is
/// all of the user agent; [`UserAgent::in_process`] has a scope for each who asks.
pub(crate) struct Scope {
    user_agent: Arc<Shared>,
    closed: AtomicBool,
    /// Whether its requests fail that would wait for ever.
    fails_on_deadlock: AtomicBool,
    /// The agents alive, by where they are.
    agents: Mutex<HashMap<usize, Weak<Agent>, RandomState>>,
}

/// What the scopes of a user agent and its buckets share.
pub(crate) struct Shared {
    reach: AnyReach,
    /// The buckets in use. Locked before anything within a bucket.
    buckets: Mutex<HashMap<String, Entry, RandomState>>,
    /// Who looks at them, if this process keeps them. Locked after them.
    lookers: Mutex<Lookers>,
}

struct Entry {
    bucket: Arc<OpenBucket>,
    /// Dead while the last user is on its way out.
    uses: Weak<BucketUse>,
}

impl UserAgent {
    /// A new user agent whose locks are seen in this process, by those who have a clone of it.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// let [mine, yours] = [(); 2].map(|()| UserAgent::new().lock_manager("app"));
    /// let guard = mine.lock("db").blocking()?;
    /// assert!(yours.try_lock("db").blocking()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new() -> Self {
        Self::with(AnyReach::Memory(MemoryReach::default()))
    }

    /// The user agent that all of this process shares: who asks for the same name in the same
    /// bucket gets the same lock, whichever library of the program it is.
    ///
    /// So nobody can [`close`](Self::close) it for the others. Each call gives a handle whose
    /// `close` ends what was opened through it and through its clones, and nothing else.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// let [here, there] = [(); 2].map(|()| UserAgent::in_process().lock_manager("app"));
    /// let guard = here.lock("db").blocking()?;
    /// assert!(there.try_lock("db").blocking()?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn in_process() -> Self {
        static IN_PROCESS: OnceLock<Arc<Shared>> = OnceLock::new();
        let memory = || Shared::new(AnyReach::Memory(MemoryReach::default()));
        Self(Scope::new(Arc::clone(IN_PROCESS.get_or_init(memory))))
    }

    /// A new user agent with another reach: for what is neither [`new`](Self::new) nor made by a
    /// function of the crate that brings the reach.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// use navlock_core::host::{Backend, MemoryReach, Reach};
    ///
    /// /// Notes which buckets are opened.
    /// #[derive(Debug)]
    /// struct Noted(MemoryReach);
    ///
    /// impl Reach for Noted {
    ///     fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
    ///         println!("bucket {name}");
    ///         self.0.open_bucket(name)
    ///     }
    /// }
    ///
    /// let user_agent = UserAgent::with_reach(Noted(MemoryReach::default()));
    /// let guard = user_agent.lock_manager("app").lock("db").blocking()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_reach(reach: impl Reach + 'static) -> Self {
        Self::with(AnyReach::Other(Box::new(reach)))
    }

    /// A new user agent in this process, with settings of its own.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// use navlock_core::{FencingToken, host::MemoryReach};
    ///
    /// let reach = MemoryReach::with_first_token(FencingToken::new(1000));
    /// let locks = UserAgent::with_memory(reach).lock_manager("app");
    /// assert!(locks.lock("db").blocking()?.fencing_token() >= FencingToken::new(1000));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn with_memory(reach: MemoryReach) -> Self {
        Self::with(AnyReach::Memory(reach))
    }

    fn with(reach: AnyReach) -> Self {
        Self(Scope::new(Shared::new(reach)))
    }

    /// Has each request [fail](crate::LockRequest::fail_on_deadlock) that is made from now on through this
    /// handle, its clones and what is opened through them, instead of waiting for ever. That is so of requests
    /// for [several names](crate::LockManager::lock_all) as well, and of none that may give up by itself.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// let locks = UserAgent::new().fail_on_deadlock().lock_manager("app");
    /// let account = locks.lock("account").blocking()?;
    /// let again = locks.lock("account").inside(&account).blocking();
    /// assert!(matches!(again, Err(Error::Deadlock(_))));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use = "the same user agent, to go on with"]
    pub fn fail_on_deadlock(self) -> Self {
        self.0.fails_on_deadlock.store(true, Ordering::Relaxed);
        self
    }

    /// The bucket of this name: what an origin is to a browser. Opened if it is not in use yet.
    ///
    /// Spec: "storage bucket", <https://w3c.github.io/web-locks/#lock-managers>
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// let user_agent = UserAgent::new();
    /// let [app, other] = ["app", "other"].map(|name| user_agent.bucket(name).lock_manager());
    /// let guard = app.lock("db").blocking()?;
    /// assert!(other.try_lock("db").blocking()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bucket(&self, name: &str) -> Bucket {
        let user_agent = &self.0.user_agent;
        Bucket::obtainable(user_agent.bucket_use(user_agent, name), Arc::clone(&self.0))
    }

    /// A handle of a new agent in the bucket of this name.
    ///
    /// Short for `bucket(name).lock_manager()`. Two calls make two agents, which end apart:
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// let user_agent = UserAgent::new();
    /// let (one, other) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    /// let _guard = one.lock("db").blocking()?;
    /// assert!(other.try_lock("db").blocking()?.is_none());
    /// one.terminate();
    /// assert!(other.try_lock("db").blocking()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn lock_manager(&self, bucket: &str) -> crate::LockManager {
        self.bucket(bucket).lock_manager()
    }

    /// A bucket that has no lock manager, as that of an opaque origin has none: whatever its
    /// agents ask for fails with [`Error::Unobtainable`](crate::Error::Unobtainable). They never
    /// have anything, so there is nothing in them to terminate or to close.
    ///
    /// Spec: "obtain a lock manager", <https://w3c.github.io/web-locks/#lock-managers>
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// let locks = UserAgent::new().opaque_bucket().lock_manager();
    /// assert_eq!(locks.lock("db").blocking().unwrap_err(), Error::Unobtainable);
    /// ```
    pub fn opaque_bucket(&self) -> Bucket {
        Bucket::opaque()
    }

    /// Whether what its agents have is theirs for a time only, which is renewed as long as this
    /// process lives; see [`Backend::ends`].
    ///
    /// ```
    /// # use navlock_core::UserAgent;
    /// assert!(!UserAgent::new().is_leased(), "what is in this process ends with it");
    /// ```
    pub fn is_leased(&self) -> bool {
        self.0.user_agent.reach.is_leased()
    }

    /// Looks at all its buckets: what there is, and then what happens. `None` if its reach does not show
    /// that, as etcd does not without a broker.
    ///
    /// Where this process keeps the locks, all is seen of all who have a handle of the user agent. The first
    /// picture ([`News::Anew`]) is of one moment, and what follows it leaves nothing out and tells nothing twice.
    /// Nobody gets a lock while a picture is taken, so after each one none is taken for nine times as long.
    /// Agents are seen with what they say of themselves ([`describe`]); of clients there are none. What ends at one
    /// moment under several names, with its agent, is told name by name.
    ///
    /// While nobody looks, no clock is read either: of what is there when somebody begins to, it is known that
    /// it [is older](crate::look::Entry::is_older). While somebody does, each request, grant and release is written
    /// down under a mutex that all threads share, and takes longer by that. Who looks at one
    /// [bucket](LookOptions::bucket()) slows down nobody in another, and who looks at one
    /// [name](LookOptions::name()) only those whose names are kept together with it.
    ///
    /// [`News::Anew`]: crate::look::News::Anew
    /// [`describe`]: crate::LockManager::describe
    ///
    /// A thread of its own looks best:
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// use std::{thread, time::Duration};
    ///
    /// use navlock_core::look::{Change, LookOptions, News};
    ///
    /// let user_agent = UserAgent::new();
    /// let mut looker = user_agent.look(LookOptions::default()).expect("this process keeps the locks");
    /// assert_eq!(looker.next(None)?, Some(News::Anew { missed: 0 }));
    ///
    /// let locks = user_agent.lock_manager("app");
    /// let work = thread::spawn(move || locks.lock("db").blocking().map(drop));
    /// let mut words = Vec::new();
    /// while !words.contains(&"agent-went") {
    ///     if let Some(News::Events(events)) = looker.next(Some(Duration::from_secs(10)))? {
    ///         words.extend(events.iter().map(|event| event.change.word()));
    ///     }
    /// }
    /// assert_eq!(words, ["agent-came", "granted", "released", "agent-went"]);
    /// # work.join().unwrap()?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn look(&self, options: LookOptions) -> Option<Looker> {
        let user_agent = &self.0.user_agent;
        Some(Looker::new(match &user_agent.reach {
            AnyReach::Memory(_) => Box::new(MemoryLook::new(Arc::clone(user_agent), options)),
            AnyReach::Other(reach) => reach.look(&options)?,
        }))
    }

    pub(crate) fn details(&self) -> Vec<(String, String)> {
        self.0.user_agent.reach.details()
    }

    pub(crate) fn outage(&self) -> Option<String> {
        self.0.user_agent.reach.outage()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn lease(&self) -> Option<Vec<u8>> {
        self.0.user_agent.reach.lease()
    }

    pub(crate) fn grace(&self) -> Duration {
        self.0.user_agent.reach.grace()
    }

    pub(crate) async fn revoke(&self, leases: Vec<Vec<u8>>) -> bool {
        self.0.user_agent.reach.revoke(leases).await
    }

    pub(crate) async fn evict(
        &self,
        bucket: &str,
        name: &ResourceName,
        seen: Vec<(ClientId, FencingToken)>,
    ) -> Result<Eviction, Error> {
        self.0.user_agent.reach.evict(bucket, name, seen).await
    }

    /// Ends all agents of this user agent, with all they hold and wait for. Of the one that the
    /// whole process [shares](Self::in_process), only those that were opened through this handle
    /// and its clones.
    ///
    /// They end as one: none of them is granted a lock because another ends. What they wait for, and
    /// what they ask for from now on, fails with [`Error::Closed`](crate::Error::Closed). Locks they
    /// held are [`Lost::Closed`](crate::Lost::Closed). Closing twice changes nothing.
    ///
    /// ```
    /// # use navlock_core::{Error, UserAgent};
    /// let user_agent = UserAgent::new();
    /// let locks = user_agent.lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// user_agent.close();
    /// assert!(guard.is_lost());
    /// assert_eq!(locks.lock("db").blocking().unwrap_err(), Error::Closed);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
        // Collected first: an agent whose last owner goes meanwhile removes itself.
        let agents: Vec<_> = lock(&self.0.agents).values().filter_map(Weak::upgrade).collect();
        Agent::end_all(&agents.iter().collect::<Vec<_>>(), Ended::Closed);
    }
}

impl Scope {
    fn new(user_agent: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            user_agent,
            closed: AtomicBool::new(false),
            fails_on_deadlock: AtomicBool::new(false),
            agents: Mutex::default(),
        })
    }

    pub(crate) fn add(&self, agent: &Arc<Agent>) {
        lock(&self.agents).insert(Arc::as_ptr(agent).addr(), Arc::downgrade(agent));
    }

    /// Forgets an agent that is on its way out.
    pub(crate) fn remove(&self, agent: &Agent) {
        let mut agents = lock(&self.agents);
        let removed = agents.remove(&std::ptr::from_ref(agent).addr());
        shrink(&mut agents);
        drop(agents);
        drop(removed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn fails_on_deadlock(&self) -> bool {
        self.fails_on_deadlock.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn new(reach: AnyReach) -> Arc<Self> {
        Arc::new(Self { reach, buckets: Mutex::default(), lookers: Mutex::default() })
    }

    fn bucket_use(&self, this: &Arc<Self>, name: &str) -> Arc<BucketUse> {
        let mut buckets = lock(&self.buckets);
        if let Some(entry) = buckets.get_mut(name) {
            // If the last user is on its way out, the bucket is taken over as it is.
            return entry.uses.upgrade().unwrap_or_else(|| {
                let again = BucketUse::new(Arc::clone(this), Arc::clone(&entry.bucket));
                entry.uses = Arc::downgrade(&again);
                again
            });
        }
        let bucket = Arc::new(OpenBucket::new(name, self.reach.open_bucket(name)));
        lock(&self.lookers).begin_in(&bucket);
        let first = BucketUse::new(Arc::clone(this), Arc::clone(&bucket));
        buckets.insert(name.to_owned(), Entry { bucket, uses: Arc::downgrade(&first) });
        first
    }

    /// The last user of a bucket is on its way out: forgets the bucket unless another came in.
    pub(crate) fn leave(&self, bucket: &OpenBucket) {
        let mut buckets = lock(&self.buckets);
        // The entry may be of a later bucket with the same name, or in use again.
        let unused = buckets.get(&*bucket.name).is_some_and(|entry| {
            std::ptr::eq(Arc::as_ptr(&entry.bucket), bucket) && entry.uses.strong_count() == 0
        });
        if unused {
            bucket.backend.retire();
            buckets.remove(&*bucket.name);
            shrink(&mut buckets);
        }
    }
}

impl Default for UserAgent {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for UserAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserAgent").field("reach", &self.0.user_agent.reach).finish_non_exhaustive()
    }
}
