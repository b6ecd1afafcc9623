//! User agents: the owners of all buckets.

mod looking;

use std::{fmt, sync::OnceLock};

use self::looking::MemoryLook;
use crate::{
    Bucket, LockManager,
    agent::Scope,
    backend::{AnyReach, MemoryReach, Reach},
    buckets::Buckets,
    look::{LookOptions, Looker},
    sync::Arc,
};

/// The owner of a set of buckets. Two user agents never see each other's locks, as private
/// browsing sessions, profiles and test cases must not.
///
/// Cheap to clone; the clones are the same user agent.
///
/// Spec: "user agent", <https://w3c.github.io/web-locks/#private-browsing>
#[derive(Clone)]
pub struct UserAgent(Arc<Scope>);

impl UserAgent {
    /// A new user agent whose locks are seen in this process, by those who have a clone of it.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let [mine, yours] = [(); 2].map(|()| UserAgent::new().lock_manager("app"));
    /// let guard = mine.lock("db").blocking()?;
    /// assert!(yours.lock("db").if_available().blocking()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn new() -> Self {
        Self::with(AnyReach::Memory(MemoryReach::default()))
    }

    /// The user agent that the whole process shares: the same name in the same bucket is the same
    /// lock, whichever library of the program asks for it.
    ///
    /// No library can [`close`](Self::close) this user agent for the others: each call gives a
    /// handle whose `close` ends what was opened through this handle and its clones, and nothing
    /// else.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let [here, there] = [(); 2].map(|()| UserAgent::in_process().lock_manager("app"));
    /// let guard = here.lock("db").blocking()?;
    /// assert!(there.lock("db").if_available().blocking()?.is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn in_process() -> Self {
        static IN_PROCESS: OnceLock<Arc<Buckets>> = OnceLock::new();
        let memory = || Buckets::new(AnyReach::Memory(MemoryReach::default()));
        Self(Scope::new(Arc::clone(IN_PROCESS.get_or_init(memory))))
    }

    /// A new user agent with this reach. This is for reaches whose crate has no function that makes
    /// the user agent.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// use navlock::host::{Backend, MemoryReach, Reach};
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

    /// A new user agent whose locks are seen in this process, with the settings of this reach.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// use navlock::{FencingToken, host::MemoryReach};
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
        Self(Scope::new(Buckets::new(reach)))
    }

    /// Lets requests [fail](crate::LockRequest::fail_on_deadlock) in a deadlock instead of waiting
    /// for ever. This holds for each request that is made from now on through this handle, its
    /// clones and what is opened through them. Requests for
    /// [several names](crate::LockManager::lock_all) are included; requests that may give up by
    /// themselves are not.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let locks = UserAgent::new().fail_on_deadlock().lock_manager("app");
    /// let account = locks.lock("account").blocking()?;
    /// let again = locks.lock("account").inside(&account).blocking();
    /// assert!(matches!(again, Err(Error::Deadlock(_))));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use = "the same user agent, to go on with"]
    pub fn fail_on_deadlock(self) -> Self {
        self.0.fail_on_deadlock();
        self
    }

    /// The bucket of this name, which is what an origin is to a browser. It is opened if it is not
    /// in use yet.
    ///
    /// Spec: "storage bucket", <https://w3c.github.io/web-locks/#lock-managers>
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let user_agent = UserAgent::new();
    /// let [app, other] = ["app", "other"].map(|name| user_agent.bucket(name).lock_manager());
    /// let guard = app.lock("db").blocking()?;
    /// assert!(other.lock("db").if_available().blocking()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn bucket(&self, name: &str) -> Bucket {
        Bucket::obtainable(self.0.buckets.open(name), Arc::clone(&self.0))
    }

    /// A handle of a new agent in the bucket of this name.
    ///
    /// Short for `bucket(name).lock_manager()`. Two calls make two agents, each of which ends on
    /// its own:
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let user_agent = UserAgent::new();
    /// let (one, other) = (user_agent.lock_manager("app"), user_agent.lock_manager("app"));
    /// let _guard = one.lock("db").blocking()?;
    /// assert!(other.lock("db").if_available().blocking()?.is_none());
    /// one.terminate();
    /// assert!(other.lock("db").if_available().blocking()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn lock_manager(&self, bucket: &str) -> LockManager {
        self.bucket(bucket).lock_manager()
    }

    /// A bucket without a lock manager, like the bucket of an opaque origin: whatever its agents
    /// ask for fails with [`Error::Unobtainable`](crate::Error::Unobtainable). They never have a
    /// lock or a request, so there is nothing to terminate or to close.
    ///
    /// Spec: "obtain a lock manager", <https://w3c.github.io/web-locks/#lock-managers>
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let locks = UserAgent::new().opaque_bucket().lock_manager();
    /// assert_eq!(locks.lock("db").blocking().unwrap_err(), Error::Unobtainable);
    /// ```
    pub fn opaque_bucket(&self) -> Bucket {
        Bucket::opaque()
    }

    /// Whether the agents of this user agent have their locks and requests for a limited time only,
    /// which is renewed as long as this process lives; see
    /// [`Backend::ends`](crate::host::Backend::ends).
    ///
    /// ```
    /// # use navlock::UserAgent;
    /// assert!(!UserAgent::new().is_leased(), "what is in this process ends with it");
    /// ```
    pub fn is_leased(&self) -> bool {
        self.reach().is_leased()
    }

    /// Looks at all buckets of this user agent: first at what there is, and then at what happens.
    /// `None` if the reach does not show this, as etcd without a broker does not.
    ///
    /// Where this process keeps the locks, the looker sees the locks and requests of everybody who
    /// has a handle of the user agent. The first picture ([`News::Anew`]) shows one moment, and the
    /// events after it leave nothing out and tell nothing twice. Nobody gets a lock while a picture
    /// is taken. So after each picture, no other one is taken for nine times as long as this one
    /// took. Agents are shown with what they say of themselves ([`describe`]); clients are not,
    /// because there are none. When an agent ends with locks of several names, these locks end at
    /// one moment, but the looker is told name by name.
    ///
    /// While nobody looks, no clock is read. So of an entry that is there when somebody begins to
    /// look, only this is known: that it [is older](crate::look::Entry::is_older). While somebody
    /// looks, each request, grant and release is written down under a mutex that all threads share,
    /// and takes longer because of that. A look at one [bucket](LookOptions::bucket()) slows down
    /// nobody in another bucket. A look at one [name](LookOptions::name()) slows down only those
    /// whose names are kept in the same shard.
    ///
    /// [`News::Anew`]: crate::look::News::Anew
    /// [`describe`]: crate::LockManager::describe
    ///
    /// It is best to look from a thread of its own:
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// use std::{thread, time::Duration};
    ///
    /// use navlock::look::{Change, LookOptions, News};
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
        let buckets = &self.0.buckets;
        Some(Looker::new(match &buckets.reach {
            AnyReach::Memory(_) => Box::new(MemoryLook::new(Arc::clone(buckets), options)),
            AnyReach::Other(reach) => reach.look(&options)?,
        }))
    }

    /// Ends all agents of this user agent, with all that they hold and wait for. Of the user agent
    /// that the whole process [shares](Self::in_process), it ends only the agents that were opened
    /// through this handle and its clones.
    ///
    /// The agents end as one: none of them is granted a lock because another ends. Their waiting
    /// requests, and all that they ask for from now on, fail with
    /// [`Error::Closed`](crate::Error::Closed). The locks that they held are
    /// [`Lost::Closed`](crate::Lost::Closed). Closing twice changes nothing.
    ///
    /// ```
    /// # use navlock::{Error, UserAgent};
    /// let user_agent = UserAgent::new();
    /// let locks = user_agent.lock_manager("app");
    /// let guard = locks.lock("db").blocking()?;
    /// user_agent.close();
    /// assert!(guard.is_lost());
    /// assert_eq!(locks.lock("db").blocking().unwrap_err(), Error::Closed);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn close(&self) {
        self.0.close();
    }
}

impl UserAgent {
    pub(crate) fn reach(&self) -> &dyn Reach {
        self.0.buckets.reach.as_dyn()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Default for UserAgent {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for UserAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserAgent").field("reach", &self.0.buckets.reach).finish_non_exhaustive()
    }
}
