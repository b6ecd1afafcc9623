//! Those who wait for each other: found here, where everything is known, and told to each of them.
//!
//! A circle comes to be by a request that is made inside a lock: whoever waits for it behind it in its queue
//! was there later. So nobody looks as long as no client says of a request what it is inside of.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use navlock_core::look::{Deadlock, InDeadlock, Overview, Watcher};
use tokio::time::sleep;

use super::{
    house::{House, lock},
    lookers::Filter,
};
use crate::forms;

/// How long a circle lasts before it is told, and how often it is looked at most.
const PATIENCE: Duration = Duration::from_secs(1);

impl House {
    /// Tells those who wait for each other, for as long as the daemon runs.
    pub(super) async fn watch_deadlocks(self: Arc<Self>) {
        let mut watcher = Watcher::new(PATIENCE);
        loop {
            self.lookers().somebody_is_nested().await;
            loop {
                let overview = self.overview().await;
                for deadlock in watcher.look(&overview, Instant::now()) {
                    if deadlock.is_certain {
                        self.tell_deadlock(&deadlock);
                    }
                }
                sleep(PATIENCE).await;
                if watcher.next().is_none() {
                    break;
                }
            }
        }
    }

    /// All that there is, as whoever looks sees it.
    async fn overview(&self) -> Overview {
        let everything = Filter::default();
        let elsewhere = self.look_elsewhere(&everything).await;
        self.look_anew();
        let mut overview = Overview::default();
        let (events, mut bucket) = (self.look(&everything, &elsewhere), Arc::default());
        for event in forms::events(events, &mut bucket) {
            overview.apply(&event);
        }
        overview
    }

    fn tell_deadlock(&self, deadlock: &Deadlock) {
        let members = deadlock.members.len();
        tracing::warn!(target: crate::LOGS, members, "some wait for each other, and for ever");
        let told = deadlock.to_string();
        for client in self.everybody() {
            let mut client = lock(&client);
            for member in deadlock.members.iter().filter(|member| !member.is_held) {
                let is_last = member.entry.id == deadlock.closed_by();
                let told = InDeadlock::new(told.clone(), is_last);
                client.tell_deadlock(member.entry.id, told);
            }
        }
    }
}
