//! What the daemon says of itself.

use navlock_core::{
    Error,
    host::{self, milliseconds},
};
use navlock_platform::surroundings;
use navlock_wire::{Failure, LogState, Numbers, Status};

use super::{delegations::Tally, orphan::KeptFor, shared_client::lock, state::Daemon};
use crate::{LOGS, convert::failure, pid_namespace};

impl Daemon {
    /// The status now, without details.
    pub(super) fn status(&self) -> Status {
        let all_clients = self.all_clients();
        let counts = all_clients.iter().map(|client| lock(client).requests.count());
        let (held, pending) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (clients, orphans) = {
            let clients = lock(&self.clients);
            let orphans = clients.orphans.values();
            let sleepers = orphans.filter(|orphan| orphan.kept_for == KeptFor::Sleeper).count();
            (clients.connected.len() + sleepers, clients.orphans.len() - sleepers)
        };
        let tally = self.delegations().map(|delegations| delegations.tally()).unwrap_or_default();
        let (bad, ends) = {
            let ends = lock(&self.ends);
            (ends.bad(), ends.last())
        };
        let age = self.started.elapsed();
        let numbers = Numbers {
            uptime_seconds: age.as_secs(),
            clients: clients as u64,
            orphans: orphans as u64,
            held: held as u64,
            pending: pending as u64,
            owned: tally.owned,
            lookers: self.lookers.count() as u64,
            sessions_ended_badly: bad,
            taken: tally.taken,
            recalls: tally.recalled,
            log_lines_missing: self.log.as_ref().map_or(0, |log| log.dropped()),
            ..self.lookers.counts.numbers()
        };
        Status {
            pid: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            age: milliseconds(age),
            reach: self.reach().map(str::to_owned),
            details: Vec::new(),
            numbers,
            ends,
            log: self.log.as_ref().map(|log| LogState {
                file: log.file().map(|file| file.display().to_string()),
                filter: log.filter(),
            }),
            pid_namespace: pid_namespace(),
        }
    }

    /// Sets what is logged. Returns what is logged from now on, or why this has not changed.
    pub(super) fn set_log(&self, filter: &str) -> Result<String, String> {
        let Some(log) = &self.log else {
            return Err(
                "the program that runs this broker has given it no log, so no filter can be set"
                    .to_owned(),
            );
        };
        log.set_filter(filter)?;
        let filter = log.filter();
        tracing::info!(target: LOGS, "the filter of the log is now: {filter}");
        Ok(filter)
    }

    /// The limits and settings under which the daemon runs, for people.
    pub(super) fn details(&self) -> Vec<(String, String)> {
        let mut details = self.details.clone();
        details.extend(self.outage().map(|outage| ("outage".to_owned(), outage)));
        details.extend(self.owned_names());
        details.extend(surroundings::now());
        details
    }

    /// Numbers of owned names, for people; `None` where no names are owned.
    fn owned_names(&self) -> Option<(String, String)> {
        let Tally { owned, taken, recalled } = self.delegations()?.tally();
        if !self.delegates {
            return Some(("owned names".to_owned(), "none, as the settings say".to_owned()));
        }
        let how = format!("{owned} (taken again {taken} times, recalled {recalled} times)");
        Some(("owned names".to_owned(), how))
    }

    /// A text for people if the service that keeps the locks does not answer: for how long it has
    /// not, and for how long the locks still last, if they are about to be lost because of this.
    pub(super) fn outage(&self) -> Option<String> {
        let terms = self.all_clients().into_iter().flat_map(|client| lock(&client).terms());
        // The term that ends first.
        let suspended = terms.filter_map(|term| term.suspended());
        let Some((silent, left)) = suspended.min_by_key(|(_, left)| *left) else {
            return host::reach(&self.user_agent).outage();
        };
        let (silent, left) = (silent.as_secs(), left.as_secs());
        let reach = self.reach().unwrap_or("what keeps the locks");
        Some(format!("no answer for {silent} s; locks are lost in {left} s ({reach})"))
    }

    /// The failure of which a client is told if its question cannot be answered.
    pub(super) fn failure(&self, error: &Error) -> Failure {
        match (failure(error), self.outage()) {
            (Failure::Other(why), Some(outage)) => Failure::Other(format!("{why}; {outage}")),
            (failure, _) => failure,
        }
    }
}
