//! The locks that an agent sees.

use std::{env, path::PathBuf};

use navlock::{BrokerReach, ConnectOptions, LockManager, Place, UserAgent};

use crate::args::{Args, Reach, set};

/// The user agent and the bucket of all agents of this process.
pub(crate) struct Locks {
    user_agent: UserAgent,
    pub(crate) reach: Reach,
    pub(crate) bucket: String,
}

impl Locks {
    /// # Errors
    /// The settings are wrong, or this process may start no more threads. If a broker cannot be
    /// reached, this succeeds, and the requests fail instead.
    /// requests fail instead.
    pub(crate) fn open(args: &Args) -> Result<Self, String> {
        let reach = args.reach()?;
        let user_agent = match reach {
            Reach::Process => UserAgent::new(),
            Reach::Machine => machine(ConnectOptions::default())?,
        };
        Ok(Self { user_agent, reach, bucket: args.bucket() })
    }

    /// A new agent.
    pub(crate) fn lock_manager(&self) -> LockManager {
        self.user_agent.lock_manager(&self.bucket)
    }

    /// A new agent in another bucket or user agent, for `runtime.openLocks`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if there is no such kind.
    pub(crate) fn elsewhere(&self, kind: &str, name: &str) -> Result<LockManager, String> {
        let user_agent = match kind {
            "bucket" => return Ok(self.user_agent.lock_manager(name)),
            "private" => UserAgent::new(),
            "socket" => machine(ConnectOptions::default().place(Place::at(PathBuf::from(name))))?,
            _ => return Err(format!("openLocks knows bucket, private and socket, not {kind:?}")),
        };
        Ok(user_agent.lock_manager(&self.bucket))
    }
}

fn machine(options: ConnectOptions) -> Result<UserAgent, String> {
    let options = match broker() {
        Some(program) => options.program(program),
        None => options,
    };
    let reach = BrokerReach::connect_when_needed(options).map_err(|error| error.to_string())?;
    Ok(UserAgent::with_reach(reach))
}

/// The program that starts a broker, unless `NAVLOCK_BIN` names one. It is the `navlock` that cargo
/// has built beside this program. Without either, it is `navlock` from `PATH`.
fn broker() -> Option<PathBuf> {
    let beside = env::current_exe().ok()?.with_file_name("navlock");
    (set("NAVLOCK_BIN").is_none() && beside.exists()).then_some(beside)
}
