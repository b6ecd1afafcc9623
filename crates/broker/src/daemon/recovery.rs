//! Recovery: a new daemon takes over from one that was killed, with its holders and its queues.
//!
//! A new daemon finds in the [files](crate::client_files) which clients of the last daemon still live.
//! It waits until these have come back and claimed their locks and requests, for ten seconds at most,
//! and grants nothing until then. Then it [settles](super::claims::settle) all claims at once.
//!
//! - Locks come first. Two claims may exclude each other, if one holder was stolen from and has not
//!   heard of it: the claim with the larger fencing token was granted later, and is the one that holds.
//! - Requests follow in the order in which they were made, by the clock that all clients share. If a
//!   process knew of another request before it made its own, the other request has the earlier time. So
//!   no process sees itself overtaken. (Requests may have been on their way at the same time. The order
//!   in which the dead daemon had received such requests is lost.)
//! - A client that does not come back in time keeps its locks if its [map](super::maps) tells all of
//!   them. Any other client is given up: its file is removed a second before anything is granted. So the
//!   client finds this out when it looks at its file, and no later daemon finds the file and believes
//!   the client. When a client that was given up comes back, its requests go to the end of the queues.
//! - A client that comes back in time is heard, but others do not wait for its claims for ever: in the end it is
//!   hung up on, which gives it up.
//! - A client is believed to hold locks only if its file was found.
//!
//! Where the user agent [is leased](navlock_core::UserAgent::is_leased), the reach itself knows the
//! holders and queues for a while, and knows them better than the clients do. In that case, the daemon
//! [reclaims](super::reclaim) the locks of a client from the reach as soon as the client is back, even if
//! the client is late. It settles only the requests of which the reach has not heard.
//!
//! A message that was on its way when the daemon was killed may be lost. If it was a grant, the client
//! claims the request, and the request is granted again; nobody else has had the lock in between. If
//! it was a release, the client does not claim the lock, so the lock is free.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use navlock_wire::ClientKey;
use tokio::sync::{Notify, watch};

use super::{
    claims::{Claimant, Claims},
    maps::Maps,
    shared_client::SharedClient,
    timers::Interval,
};
use crate::{
    LOGS,
    client_files::{ClientFiles, Found},
    clock,
    sync::lock,
};

/// How often the daemon looks whether the clients for which it waits still live.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Clients that have not come back are given up when one part in `NOTICE` of the recovery time is
/// left: one second of ten. In this second, a client that runs but cannot connect learns that it
/// has lost its locks, before anybody else can get them.
const NOTICE: u32 = 10;

/// The time between the start of a daemon and its first grant.
pub(super) struct Recovery {
    /// The clients whose files were found when the daemon started, and the clients that have come
    /// back.
    stages: Mutex<HashMap<ClientKey, Stage>>,
    arrived: Notify,
    phase: watch::Sender<Phase>,
    /// Whoever waits for the end of the recovery has a clone of this until it goes on.
    joining: Arc<()>,
}

/// The phases of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    /// The daemon waits for claims.
    Waiting,
    /// The daemon hangs up on whoever is still sending claims. Who comes back from now on is heard when the recovery is
    /// over.
    Closing,
    /// The daemon settles the claims that have come. Later claims are too late.
    Settling,
    /// Claims are settled, and locks are granted.
    Over,
}

/// The stage of a client in the recovery.
enum Stage {
    /// The client lived when the daemon started, and has not come back.
    Awaited,
    /// The client is dead, or given up. Others may have inherited its locks.
    Gone,
    /// The client has come back, on the connection of this number, and is sending its claims.
    Claiming { number: u64, believed: Believed },
    /// The client has sent all its claims, on the connection of this number.
    Claimed { number: u64, believed: Believed, client: SharedClient, claims: Claims },
}

/// Which locks a client is believed to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Believed {
    /// All locks that it claims: nothing was granted since its last daemon.
    All,
    /// The locks that living processes have inherited from it.
    Inherited,
    /// None: an earlier daemon may have given it up, or this daemon has ended its locks.
    Nothing,
}

impl Recovery {
    /// The recovery of a daemon that has found these files.
    pub(super) fn new(found: &Found) -> Self {
        let gone = found.inherited_from.iter().map(|client| (*client, Stage::Gone));
        let awaited = found.living.iter().map(|client| (*client, Stage::Awaited));
        let stages = Mutex::new(gone.chain(awaited).collect());
        let phase = watch::Sender::new(Phase::Waiting);
        Self { stages, arrived: Notify::new(), phase, joining: Arc::default() }
    }

    /// To be called when a client has come back, and begins to send its claims.
    pub(super) fn begin(&self, key: ClientKey, number: u64) {
        let mut stages = lock(&self.stages);
        let believed = match stages.get(&key) {
            Some(Stage::Awaited) => Believed::All,
            Some(Stage::Gone) => Believed::Inherited,
            // The client's last connection must have ended, but the daemon does not know this yet.
            Some(Stage::Claiming { believed, .. } | Stage::Claimed { believed, .. }) => *believed,
            None => Believed::Nothing,
        };
        stages.insert(key, Stage::Claiming { number, believed });
    }

    /// Which locks a client that has come back is believed to hold.
    pub(super) fn believed(&self, key: ClientKey) -> Believed {
        believed(lock(&self.stages).get(&key))
    }

    /// Whether the locks of this client are from an earlier daemon. This is true once only: later
    /// locks are from this daemon.
    pub(super) fn is_first_return(&self, key: ClientKey) -> bool {
        let mut stages = lock(&self.stages);
        match stages.get_mut(&key) {
            Some(Stage::Claiming { believed, .. }) => {
                mem::replace(believed, Believed::Nothing) != Believed::Nothing
            }
            Some(Stage::Awaited | Stage::Gone) => stages.remove(&key).is_some(),
            Some(Stage::Claimed { .. }) | None => false,
        }
    }

    /// To be called when a client has gone again. If its claims are not settled yet, they never will
    /// be, but others may have inherited its locks. Returns whether the client had come back on this
    /// connection.
    pub(super) fn withdraw(&self, key: ClientKey, on: u64) -> bool {
        let mut stages = lock(&self.stages);
        let is_on = matches!(
            stages.get(&key),
            Some(Stage::Claiming { number, .. } | Stage::Claimed { number, .. }) if *number == on
        );
        if is_on {
            let before = stages.remove(&key);
            let is_believed = |believed| believed != Believed::Nothing;
            // The claims of processes that have inherited the client's locks are still to come.
            let is_unheard =
                matches!(before, Some(Stage::Claiming { believed, .. }) if is_believed(believed));
            if self.phase() < Phase::Settling || is_unheard {
                stages.insert(key, Stage::Gone);
            }
            self.arrived.notify_one();
        }
        is_on
    }

    /// To be called when a client has sent its claims. Returns the claims if they are too late.
    pub(super) fn claim(
        &self,
        key: ClientKey,
        number: u64,
        client: &SharedClient,
        claims: Claims,
    ) -> Result<(), Claims> {
        let mut stages = lock(&self.stages);
        if self.phase() >= Phase::Settling {
            stages.remove(&key);
            return Err(claims);
        }
        let (believed, client) = (believed(stages.get(&key)), Arc::clone(client));
        stages.insert(key, Stage::Claimed { number, believed, client, claims });
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

    /// Whether the recovery is over, and some have not gone on that have waited for this. No turn is taken
    /// before they have: in it, one of them could be robbed without being told first.
    pub(super) fn lets_join(&self) -> bool {
        self.is_over() && Arc::strong_count(&self.joining) > 1
    }

    /// Waits until claims are settled and locks are granted.
    pub(super) async fn over(&self) {
        let _joins = Arc::clone(&self.joining);
        // No error is possible: the sender is in `self`.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Over).await;
    }

    /// Waits until whoever is still sending claims is hung up on.
    pub(super) async fn closes(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Closing).await;
    }

    /// Waits until a client that has come back may be heard.
    pub(super) async fn hears(&self) {
        let hears = |phase: &Phase| matches!(phase, Phase::Waiting | Phase::Over);
        let _ = self.phase.subscribe().wait_for(hears).await;
    }

    /// Whether whoever is still sending claims is hung up on.
    #[cfg(test)]
    pub(super) fn is_closing(&self) -> bool {
        self.phase() == Phase::Closing
    }

    /// Waits until all living clients have come back, or until this time is over. Returns the
    /// clients that have come.
    ///
    /// If `gives_up` is set, clients that do not come are given up shortly before the end of this
    /// time.
    pub(super) async fn wait_for_claims(
        &self,
        files: &ClientFiles,
        maps: &Maps,
        gives_up: bool,
        recovery_time: Duration,
    ) -> HashMap<ClientKey, Claimant> {
        let began = clock::instant();
        let (notice, mut end) =
            (began + recovery_time / NOTICE * (NOTICE - 1), began + recovery_time);
        // Nobody keeps the others waiting for longer by claiming slowly, or again and again.
        let heard = end + recovery_time;
        let (mut has_given_up, mut is_told) = (false, false);
        let mut checks = Interval::new(CHECK_INTERVAL);
        // The daemon also waits for a client whose map tells all its locks, but not beyond the
        // time.
        let is_needed = |client: &ClientKey| gives_up && !maps.tell_all(*client);
        let may_end = |end, has_given_up| {
            let now = clock::instant();
            // A client that has come in time is heard to the end. For this, it has the time of a new
            // connection. Such a client believes that it holds the locks that it claims, until it is
            // told that it does not.
            !(self.is_hearing() && now < heard) && self.may_end(now >= end, is_needed, has_given_up)
        };
        while !recovery_time.is_zero() && !may_end(end, has_given_up) {
            tokio::select! {
                () = self.arrived.notified() => {}
                () = checks.tick() => {
                    // The stages are not locked meanwhile, because there may be many clients.
                    for client in self.awaited() {
                        if !files.lives(client) {
                            self.set_gone(client);
                        } else if is_needed(&client) && clock::instant() >= notice {
                            maps.take_back(client);
                            // If the client's file cannot be removed, the daemon waits until it can
                            // be, or until the client comes.
                            match files.give_up(client) {
                                Ok(()) => {
                                    self.set_gone(client);
                                    has_given_up = true;
                                    end = end.max(clock::instant() + recovery_time / NOTICE);
                                }
                                Err(error) if !is_told => {
                                    is_told = true;
                                    tracing::warn!(
                                        target: LOGS,
                                        %error,
                                        "nothing is granted: a client does not come back, and its file cannot be \
                                         removed"
                                    );
                                }
                                Err(_) => {}
                            }
                        }
                    }
                }
            }
        }
        self.phase.send_replace(Phase::Closing);
        // Others may be granted what a client holds that has not claimed it by now. To hang up on it gives it up.
        while gives_up && self.is_hearing() {
            self.arrived.notified().await;
        }
        self.phase.send_replace(Phase::Settling);
        let mut stages = lock(&self.stages);
        let all = mem::take(&mut *stages);
        let mut claimants = HashMap::new();
        for (key, stage) in all {
            match stage {
                Stage::Claimed { client, claims, .. } => {
                    claimants.insert(key, (client, claims));
                }
                other => _ = stages.insert(key, other),
            }
        }
        claimants
    }

    /// The clients that were found, have not come back and are not given up.
    pub(super) fn awaited(&self) -> Vec<ClientKey> {
        self.those(|stage| matches!(stage, Stage::Awaited))
    }

    /// The clients that were found and have not come back, whose locks others may have inherited.
    pub(super) fn absent(&self) -> Vec<ClientKey> {
        self.those(|stage| matches!(stage, Stage::Awaited | Stage::Gone))
    }

    /// Whether a client that has come back is sending its claims.
    pub(super) fn is_hearing(&self) -> bool {
        lock(&self.stages).values().any(|stage| matches!(stage, Stage::Claiming { .. }))
    }

    fn those(&self, are: impl Fn(&Stage) -> bool) -> Vec<ClientKey> {
        let stages = lock(&self.stages);
        let those = stages.iter().filter(|(_, stage)| are(stage));
        those.map(|(client, _)| *client).collect()
    }

    fn set_gone(&self, client: ClientKey) {
        lock(&self.stages).insert(client, Stage::Gone);
    }

    fn may_end(
        &self,
        is_late: bool,
        is_needed: impl Fn(&ClientKey) -> bool,
        has_given_up: bool,
    ) -> bool {
        let awaited = self.awaited();
        if is_late { !awaited.iter().any(is_needed) } else { awaited.is_empty() && !has_given_up }
    }

    /// Ends the recovery. Whoever waits for its end goes on.
    pub(super) fn end(&self) {
        self.phase.send_replace(Phase::Over);
    }
}

/// Which locks a client at this stage is believed to hold.
fn believed(stage: Option<&Stage>) -> Believed {
    match stage {
        Some(Stage::Claiming { believed, .. }) => *believed,
        _ => Believed::Nothing,
    }
}
