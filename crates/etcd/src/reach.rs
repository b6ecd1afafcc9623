//! The reach of many machines, by one etcd.

use navlock_core::{Error, UserAgent};
use navlock_machines::reach::MachinesReach;

use crate::{members::Members, options::EtcdOptions};

/// A user agent whose locks are seen by all who use this etcd.
///
/// Each call makes a connection of its own, with a thread of its own. Works on any executor. The connection
/// ends with the last handle of the user agent. If the process ends before that, the locks and requests of
/// its agents, and the names that it [owns](EtcdOptions::keep_names), stay until its lease is over. No broker is
/// needed.
///
/// ```no_run
/// # use navlock::{EtcdOptions, etcd};
/// # navlock::blocking::block_on(async {
/// let options = EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"]);
/// let locks = etcd(options).await?.lock_manager("my-app");
/// let guard = locks.lock("db").await?;
///
/// // A machine that is cut off loses its locks, and is told before others are granted them.
/// guard.lost().await;
/// # Ok::<(), navlock::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// [`Error::Unreachable`] if etcd does not answer, [`Error::Refused`] if the options cannot be used.
pub async fn etcd(options: EtcdOptions) -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(EtcdReach::connect(options).await?))
}

/// The reach of many machines, by one connection to an etcd.
///
/// ```no_run
/// use navlock::{EtcdOptions, EtcdReach};
/// # use navlock::UserAgent;
///
/// # navlock::blocking::block_on(async {
/// let reach = EtcdReach::connect(EtcdOptions::new(["10.0.0.1:2379"])).await?;
/// // Two user agents with one connection: to close one of them leaves the other as it is.
/// let (first, second) = (UserAgent::with_reach(reach.clone()), UserAgent::with_reach(reach));
/// # drop((first, second));
/// # Ok::<(), navlock::Error>(())
/// # }).unwrap();
/// ```
pub type EtcdReach = MachinesReach<Members>;
