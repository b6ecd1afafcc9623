//! The locks inside which a process waits because of who has started it.
//!
//! A client says inside which locks it makes a request, as far as it knows. The variable by which a command is
//! told may be taken away, as by `env -i` or sudo, and nobody tells the script for which `navlock hold` holds.
//! The system knows who has started whom. So of each wait that lasts, the daemon notes itself that it is inside
//! the locks that are held for the waiting process, or for a process above it.

use std::{
    collections::{HashSet, hash_map},
    sync::Arc,
    time::Duration,
};

use super::{
    client_record::{Ancestors, HeldFor},
    shared_client::lock,
    state::Daemon,
    timers::sleep,
};
use crate::surrounding::ancestors;

/// How long a wait lasts before its process is looked at. This is also the shortest time between two looks.
const LASTING: Duration = Duration::from_secs(1);

impl Daemon {
    /// Looks at the processes that wait, for as long as the daemon runs.
    pub(super) async fn watch_waits(self: Arc<Self>) {
        let mut known = Ancestors::new();
        loop {
            self.lookers.waits.notified().await;
            sleep(LASTING).await;
            let clients = self.all_clients();
            let waiting: HashSet<u32> =
                clients.iter().flat_map(|client| lock(client).waits_by()).collect();
            // A number may be another process's by the time at which it waits again.
            known.retain(|number, _| waiting.contains(number));
            for number in waiting {
                if let hash_map::Entry::Vacant(unknown) = known.entry(number) {
                    unknown.insert(ancestors(number).collect());
                    // Files were read, and others are served before the next ones.
                    self.next_turn.passes().await;
                }
            }
            let mut held = HeldFor::default();
            for client in &clients {
                lock(client).add_held_for(&mut held);
            }
            for client in &clients {
                lock(client).put_inside_of_ancestors(&held, &known);
            }
        }
    }
}
