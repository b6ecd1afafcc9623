//! Taking over from a daemon that was killed: who held what, and who waited where.
//!
//! A new daemon finds in the [files](crate::client_files) who was connected to the last one and
//! still lives. It waits for these to come back and say what they had, for ten seconds at most, and
//! grants nothing to anybody until then. Then it [settles](super::claims::settle) all claims at once.
//!
//! - Locks come first. Two claims may exclude each other, when one holder was stolen from and never
//!   heard of it; the larger fencing token is the later grant, and that one holds.
//! - Requests follow in the order in which they were made, by the clock that all clients share. A
//!   request that another process knew of was made before that process made its own, so nobody is
//!   overtaken who could tell. (The daemon's own order among requests that crossed on their way to
//!   it is gone with it.)
//! - Who does not come back in time and has all that it holds in its [map](super::maps) holds it on. Who
//!   has not is given up: a second before anything is granted, its file is
//!   removed. So it finds out when it looks, and no later daemon finds it and believes it. Its
//!   requests, when it comes, go to the end of the queues.
//! - Only who was found is believed to hold anything.
//!
//! Where the user agent [is leased](navlock_core::UserAgent::is_leased) its reach knows all this by
//! itself for a while, and better: then what it still has is [recalled](super::recall) as soon as a
//! client is back, also if that is late, and there are only requests to settle that it has not heard
//! of.
//!
//! An answer that was on its way when the daemon was killed may have been lost. The client that has
//! not heard of a grant claims a request, and will be granted it again; nobody else has come in
//! between. A release may have been lost as well, but who has released claims nothing.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use navlock_wire::ClientKey;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, interval},
};

use super::{
    claims::{Claimant, Claims},
    maps::Maps,
    shared_client::SharedClient,
};
use crate::client_files::{ClientFiles, Found};

/// How often it is looked whether those who are waited for still live.
const LOOK: Duration = Duration::from_millis(50);

/// Which part of the time for recovery is left when those who have not come back are given up: a
/// second of ten, in which who runs but cannot connect sees that it has lost its locks, before
/// anybody else can have them.
const NOTICE: u32 = 10;

/// The time between the start of a daemon and its first grant.
pub(super) struct Recovery {
    state: Mutex<State>,
    arrived: Notify,
    /// Becomes [`Phase::Settling`] only under the lock of the state.
    phase: watch::Sender<Phase>,
}

#[derive(Default)]
struct State {
    /// Those of whom something was found when the daemon started, and those who have come back.
    stages: HashMap<ClientKey, Stage>,
}

/// How far the recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Claims are waited for.
    Waiting,
    /// Those that have come are settled. What comes now is too late.
    Settling,
    /// Claims are settled, and locks are granted.
    Over,
}

/// Where a client stands.
enum Stage {
    /// It lived when the daemon started, and has not come back.
    Awaited,
    /// It is dead, or given up. Others may have inherited its locks.
    Gone,
    /// It has come back, on this connection, and is saying what it had.
    Claiming { number: u64, believed: Believed },
    /// It has said what it had, on this connection.
    Claimed { number: u64, believed: Believed, client: SharedClient, claims: Claims },
}

/// Which locks a client is believed to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Believed {
    /// All that it says. Nobody has been granted anything since its last daemon.
    All,
    /// Those that others have inherited of it, who live.
    Inherited,
    /// None. An earlier daemon may have given it up, or this one has ended what it had.
    Nothing,
}

impl Recovery {
    /// Of a daemon that finds these.
    pub(super) fn new(found: &Found) -> Self {
        let gone = found.inherited_from.iter().map(|client| (*client, Stage::Gone));
        let awaited = found.living.iter().map(|client| (*client, Stage::Awaited));
        let state = State { stages: gone.chain(awaited).collect() };
        let phase = watch::Sender::new(Phase::Waiting);
        Self { state: Mutex::new(state), arrived: Notify::new(), phase }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client has come back, and begins to say what it had.
    pub(super) fn begin(&self, key: ClientKey, number: u64) {
        let mut state = self.state();
        let believed = match state.stages.get(&key) {
            Some(Stage::Awaited) => Believed::All,
            Some(Stage::Gone) => Believed::Inherited,
            // Its last connection has ended, which is not known yet.
            Some(Stage::Claiming { believed, .. } | Stage::Claimed { believed, .. }) => *believed,
            None => Believed::Nothing,
        };
        state.stages.insert(key, Stage::Claiming { number, believed });
    }

    /// What a client is believed that has come back.
    pub(super) fn believed(&self, key: ClientKey) -> Believed {
        match self.state().stages.get(&key) {
            Some(Stage::Claiming { believed, .. }) => *believed,
            _ => Believed::Nothing,
        }
    }

    /// Whether what this client has was had through an earlier daemon. Once: what it has from here
    /// on, it has through us.
    pub(super) fn is_first_return(&self, key: ClientKey) -> bool {
        let mut state = self.state();
        match state.stages.get_mut(&key) {
            Some(Stage::Claiming { believed, .. }) => {
                mem::replace(believed, Believed::Nothing) != Believed::Nothing
            }
            Some(Stage::Awaited | Stage::Gone) => state.stages.remove(&key).is_some(),
            Some(Stage::Claimed { .. }) | None => false,
        }
    }

    /// It has gone again. If its claims are not settled yet, they never will be: it may have left its
    /// locks to others. Whether it was that connection on which it had come back.
    pub(super) fn withdraw(&self, key: ClientKey, on: u64) -> bool {
        let mut state = self.state();
        let is_on = matches!(
            state.stages.get(&key),
            Some(Stage::Claiming { number, .. } | Stage::Claimed { number, .. }) if *number == on
        );
        if is_on {
            let before = state.stages.remove(&key);
            let is_believed = |believed| believed != Believed::Nothing;
            // What it has left to others is not heard yet.
            let is_unheard =
                matches!(before, Some(Stage::Claiming { believed, .. }) if is_believed(believed));
            if self.phase() == Phase::Waiting || is_unheard {
                state.stages.insert(key, Stage::Gone);
            }
            self.arrived.notify_one();
        }
        is_on
    }

    /// A client is there, with what it claims. It gets its claims back if it is too late.
    pub(super) fn claim(
        &self,
        key: ClientKey,
        number: u64,
        client: &SharedClient,
        claims: Claims,
    ) -> Result<(), Claims> {
        let mut state = self.state();
        if self.phase() != Phase::Waiting {
            state.stages.remove(&key);
            return Err(claims);
        }
        let believed = match state.stages.get(&key) {
            Some(Stage::Claiming { believed, .. }) => *believed,
            _ => Believed::Nothing,
        };
        let client = Arc::clone(client);
        state.stages.insert(key, Stage::Claimed { number, believed, client, claims });
        self.arrived.notify_one();
        Ok(())
    }

    /// Whether claims are settled and locks are granted.
    pub(super) fn is_over(&self) -> bool {
        self.phase() == Phase::Over
    }

    fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until claims are settled and locks are granted.
    pub(super) async fn over(&self) {
        // The sender is here, so that this is no error.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Over).await;
    }

    /// Waits until all who live have come back, or until this time is over. Who has come.
    ///
    /// With files that are to say so, those who do not come are given up before that.
    pub(super) async fn wait_for_claims(
        &self,
        files: Option<&ClientFiles>,
        maps: &Maps,
        gives_up: bool,
        patience: Duration,
    ) -> HashMap<ClientKey, Claimant> {
        let began = Instant::now();
        let (notice, end) = (began + patience - patience / NOTICE, began + patience);
        let mut has_given_up = false;
        let mut look = interval(LOOK);
        // Of whom all is known is waited for, but not longer.
        let is_needed = |client: &ClientKey| gives_up && !maps.tell_all(*client);
        while !self.may_end(Instant::now() >= end, is_needed, has_given_up) {
            tokio::select! {
                () = self.arrived.notified() => {}
                _ = look.tick() => {
                    let Some(files) = files else { continue };
                    // Not under the lock: there may be many.
                    for client in self.awaited() {
                        if !files.lives(client) {
                            self.set_gone(client);
                        } else if is_needed(&client) && Instant::now() >= notice {
                            maps.take_back(client);
                            // If that cannot be written down, it is waited for until it can be, or
                            // until the client comes.
                            if files.give_up(client).is_ok() {
                                self.set_gone(client);
                                has_given_up = true;
                            }
                        }
                    }
                }
            }
        }
        let mut state = self.state();
        self.phase.send_replace(Phase::Settling);
        let all = mem::take(&mut state.stages);
        let mut claimants = HashMap::new();
        for (key, stage) in all {
            match stage {
                Stage::Claimed { client, claims, .. } => {
                    claimants.insert(key, (client, claims));
                }
                other => _ = state.stages.insert(key, other),
            }
        }
        claimants
    }

    /// Those who were found and have not come back, and are not given up.
    pub(super) fn awaited(&self) -> Vec<ClientKey> {
        self.those(|stage| matches!(stage, Stage::Awaited))
    }

    /// Those who were found and have not come back, whose locks others may have inherited.
    pub(super) fn absent(&self) -> Vec<ClientKey> {
        self.those(|stage| matches!(stage, Stage::Awaited | Stage::Gone))
    }

    /// Whether somebody has come back who is saying what it had.
    pub(super) fn is_hearing(&self) -> bool {
        self.state().stages.values().any(|stage| matches!(stage, Stage::Claiming { .. }))
    }

    fn those(&self, are: impl Fn(&Stage) -> bool) -> Vec<ClientKey> {
        let state = self.state();
        let those = state.stages.iter().filter(|(_, stage)| are(stage));
        those.map(|(client, _)| *client).collect()
    }

    fn set_gone(&self, client: ClientKey) {
        self.state().stages.insert(client, Stage::Gone);
    }

    fn may_end(
        &self,
        is_late: bool,
        is_needed: impl Fn(&ClientKey) -> bool,
        has_given_up: bool,
    ) -> bool {
        // Who has come in time is heard to the end, for which a new connection has its own time: it
        // thinks that it holds what it claims, until it is told that it does not.
        if self.is_hearing() {
            return false;
        }
        let awaited = self.awaited();
        if is_late { !awaited.iter().any(is_needed) } else { awaited.is_empty() && !has_given_up }
    }

    /// Has everybody go on.
    pub(super) fn end(&self) {
        self.phase.send_replace(Phase::Over);
    }
}
