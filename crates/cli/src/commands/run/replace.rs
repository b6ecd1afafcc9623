//! `--replace`: who holds the locks is ended, and this command takes its turn after that.
//!
//! This process asks for the locks as every other one does, and ends the commands of those who hold them
//! meanwhile. A holder is told as by a person: its `navlock` gets TERM, passes the signal on, and keeps the lock
//! until all that the command has started has ended. So nobody ever runs beside the command that is replaced.

use std::{
    collections::HashMap,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use navlock::{
    AgentInfo, ClientId, Inspected, LockManager, ResourceName,
    blocking::block_on,
    host::{process, program},
    this_process,
};
use navlock_broker::is_around;
use navlock_platform::process::{Handle, Signal, TELLS_OTHERS, is_beyond_signals};

use crate::{
    exit::{self, Failure},
    text::{printable, quoted_name},
};

/// How often it is asked who holds the locks.
const PAUSE: Duration = Duration::from_millis(250);

/// Ends those who hold the locks, until this is dropped.
pub(super) struct Replacing(Option<(Sender<()>, JoinHandle<()>)>);

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
}

impl Replacing {
    /// Looks who holds the locks, and begins to end them.
    ///
    /// # Errors
    ///
    /// If one of the holders is no command of `navlock run`, or cannot be asked for.
    pub(super) fn begin(
        locks: &LockManager,
        names: &[ResourceName],
        grace: Duration,
    ) -> Result<Self, Failure> {
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
        let (stop, stopped) = mpsc::channel();
        let look = move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if let Err(failure) = holders.look() {
                    // The request goes on waiting, as for any holder.
                    failure.report();
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("navlock-replace".to_owned()).spawn(look);
        let thread = thread.map_err(|error| {
            Failure::new(exit::UNREACHABLE, format_args!("cannot start a thread: {error}"))
        })?;
        Ok(Self(Some((stop, thread))))
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // If it has panicked, that was told, and the lock is held all the same.
            let _ = thread.join();
        }
    }
}

impl Holders {
    fn look(&mut self) -> Result<(), Failure> {
        for name in &self.names {
            let held = block_on(self.locks.inspect(Some(name.clone())))?.held;
            let own = self.locks.client_id();
            for held in held.iter().filter(|held| held.lock.client_id != own && !is_around(held)) {
                let Some(agent) = held.agent.as_deref() else { return Err(refused(name, held)) };
                let key = (held.lock.client_id, agent.pid);
                if let Some(holder) = self.known.get_mut(&key) {
                    holder.end(name, agent, self.grace);
                } else if let Some(holder) =
                    Holder::open(agent).ok_or_else(|| refused(name, held))?
                {
                    self.known.insert(key, holder);
                }
            }
        }
        Ok(())
    }
}

impl Holder {
    /// The processes of a holder; `None` inside if they have just ended. `None` if it is no command of
    /// `navlock run` on this machine.
    fn open(agent: &AgentInfo) -> Option<Option<Self>> {
        let is_here = agent.host == this_process().host;
        if agent.keeper == 0 || agent.command == "navlock hold" || !is_here {
            return None;
        }
        let Ok(command) = Handle::open(agent.pid) else { return Some(None) };
        let mut keeper = None;
        if agent.keeper != agent.pid {
            if command.parent() == Some(agent.keeper) {
                keeper = Handle::open(agent.keeper).ok();
            } else if Handle::open(agent.keeper).is_ok() {
                // It holds the lock for a process that it has not started.
                return None;
            }
        }
        Some(Some(Self { command, keeper, told: None, is_killed: false }))
    }

    /// Tells the holder to end, or kills its command if it was told and the grace is over.
    fn end(&mut self, name: &ResourceName, agent: &AgentInfo, grace: Duration) {
        let told_to = self.keeper.as_ref().unwrap_or(&self.command);
        match self.told {
            None => {
                let (name, number) = (quoted_name(name), self.command.number());
                let shown = format!("{}[{number}]", program(&agent.command));
                let said = if is_beyond_signals(told_to.number()) {
                    let user = printable(&agent.user);
                    format!("{shown} belongs to {user}, who alone can end it; it is waited for")
                } else {
                    format!("{shown} is told to end, and is waited for")
                };
                exit::mention(format!("navlock: {name}: {said}\n").as_bytes());
                told_to.signal(Signal::TERMINATE);
                // It may be stopped.
                told_to.signal(Signal::CONTINUE);
                self.told = Some(Instant::now());
            }
            Some(told) if !self.is_killed && told.elapsed() >= grace => {
                self.command.signal(Signal::KILL);
                self.is_killed = true;
            }
            Some(_) => {}
        }
    }
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
