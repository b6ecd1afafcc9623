//! `--replace`: who holds the locks is ended, and this command takes its turn after that.
//!
//! This process asks for the locks as every other one does, and ends the commands of those who hold them
//! meanwhile. A holder is told as by a person: its `navlock` gets TERM, passes the signal on, and keeps the lock
//! until all that the command has started has ended. So nobody ever runs beside the command that is replaced.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use navlock::{
    ClientId, Inspected, LockManager, ResourceName, blocking::block_on, host::process, this_process,
};
use navlock_broker::{is_around, runs_under};
use navlock_platform::process::{Handle, Signal, TELLS_OTHERS, is_beyond_signals};

use crate::{
    commands::repeating::Repeating,
    exit::{self, Failure},
    text::{printable, quoted_name},
};

/// How often it is asked who holds the locks.
const PAUSE: Duration = Duration::from_millis(250);

/// How long a killed command may hold its lock, besides the grace in which its own `navlock` ends what it has
/// started, before people are told that somebody is left.
const LEFT_AFTER: Duration = Duration::from_secs(2);

/// Those who were found to hold the locks.
struct Holders {
    locks: LockManager,
    names: Vec<ResourceName>,
    /// How long a command may take to end.
    grace: Duration,
    /// By their ids and the processes of their commands.
    known: HashMap<(ClientId, u32), Holder>,
}

/// A command that holds a lock.
struct Holder {
    command: Handle,
    /// The `navlock` that waits for the command, unless it was killed or has become the command.
    keeper: Option<Handle>,
    told: Option<Instant>,
    is_killed: bool,
    /// Whether people were told that it holds the lock even so.
    is_said: bool,
}

/// Looks who holds the locks, and begins to end them. Goes on until the returned value is dropped.
///
/// # Errors
///
/// If one of the holders is no command of `navlock run`, or cannot be asked for.
pub(super) fn replace(
    locks: &LockManager,
    names: &[ResourceName],
    grace: Duration,
) -> Result<Repeating, Failure> {
    if !TELLS_OTHERS {
        let said = "--replace is not to be had on this system, where nobody can tell a process to end that \
                    it has not started; use --steal";
        return Err(Failure::new(exit::USAGE, said));
    }
    let (locks, names) = (locks.clone(), names.to_vec());
    let mut holders = Holders { locks, names, grace, known: HashMap::new() };
    // Processes are found the first time, and are signalled once they were found to hold the lock still.
    holders.look()?;
    holders.look()?;
    let look = move || match holders.look() {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => {
            // The request goes on waiting, as for any holder.
            failure.report();
            ControlFlow::Break(())
        }
    };
    Repeating::start("navlock-replace", PAUSE, look).map_err(|error| {
        Failure::new(exit::UNREACHABLE, format_args!("cannot start a thread: {error}"))
    })
}

impl Holders {
    /// Opens the processes of those who are new, and ends those who are not.
    ///
    /// # Errors
    ///
    /// If one of the holders is no command of `navlock run`; then none is ended. Or if nobody can say who holds
    /// the locks.
    fn look(&mut self) -> Result<(), Failure> {
        let (mut new, mut known) = (Vec::new(), Vec::new());
        let own = self.locks.client_id();
        for name in &self.names {
            let held = block_on(self.locks.inspect(Some(name.clone())))?.held;
            for held in held.into_iter().filter(|it| it.lock.client_id != own && !is_around(it)) {
                let pid = held.agent.as_deref().map_or(0, |agent| agent.pid);
                let key = (held.lock.client_id, pid);
                if self.known.contains_key(&key) {
                    known.push((key, held));
                } else {
                    let holder = Holder::open(name, &held)?;
                    new.extend(holder.map(|holder| (key, holder)));
                }
            }
        }
        for (key, held) in known {
            if let Some(holder) = self.known.get_mut(&key) {
                holder.end(&held, self.grace);
            }
        }
        self.known.extend(new);
        Ok(())
    }
}

impl Holder {
    /// The processes of a holder; `None` if they have just ended, or are not there yet.
    ///
    /// # Errors
    ///
    /// If it is no command of `navlock run` on this machine.
    fn open(name: &ResourceName, held: &Inspected) -> Result<Option<Self>, Failure> {
        let agent = held.agent.as_deref().ok_or_else(|| refused(name, held))?;
        let is_here = agent.host == this_process().host;
        if agent.keeper == 0 || agent.command == "navlock hold" || !is_here {
            return Err(refused(name, held));
        }
        let Ok(command) = Handle::open(agent.pid) else { return Ok(None) };
        let is_child = command.parent() == Some(agent.keeper);
        let keeper = Handle::open(agent.keeper).ok();
        if keeper.is_some() && !is_child && agent.keeper != agent.pid {
            // It holds the lock for a process that it has not started.
            return Err(refused(name, held));
        }
        // Another process may have the number, if what the command has started outlives it. And a navlock that has
        // not started its command yet is not ended.
        if !is_child && !runs_under(agent.pid, held.lock.client_id) {
            return Ok(None);
        }
        let keeper = keeper.filter(|_| is_child);
        Ok(Some(Self { command, keeper, told: None, is_killed: false, is_said: false }))
    }

    /// Tells the holder to end, or kills its command if it was told and the grace is over.
    fn end(&mut self, held: &Inspected, grace: Duration) {
        let Some(told) = self.told else {
            let told_to = self.keeper.as_ref().unwrap_or(&self.command);
            if is_beyond_signals(told_to.number()) {
                let user = held.agent.as_deref().map(|agent| printable(&agent.user));
                let user = user.unwrap_or_default();
                let who = format!("belongs to {user}; only {user} and root can end it");
                say(held, &format!("{who}; it is waited for"));
            } else {
                say(held, "is told to end, and is waited for");
            }
            told_to.signal(Signal::TERMINATE);
            // It may be stopped.
            told_to.signal(Signal::CONTINUE);
            self.told = Some(Instant::now());
            return;
        };
        if !self.is_killed && told.elapsed() >= grace {
            self.command.signal(Signal::KILL);
            self.is_killed = true;
        } else if !self.is_said && told.elapsed() >= grace * 3 + LEFT_AFTER {
            self.is_said = true;
            say(held, "was killed, and what it has started still has the lock; it is waited for");
        }
    }
}

/// Tells people what becomes of a holder.
fn say(held: &Inspected, what: &str) {
    let holder = process(held.agent.as_deref(), held.lock.client_id);
    let name = quoted_name(&held.lock.name);
    exit::mention(format_args!("{name}: {holder} {what}"));
}

fn refused(name: &ResourceName, held: &Inspected) -> Failure {
    let holder = process(held.agent.as_deref(), held.lock.client_id);
    Failure::new(
        exit::CONFLICT,
        format_args!(
            "{}: --replace ends commands of 'navlock run' on this machine, and {holder}, which holds the \
             lock, is none; end it yourself, or take the lock by --steal",
            quoted_name(name)
        ),
    )
}
