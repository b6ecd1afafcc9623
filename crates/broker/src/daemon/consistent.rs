//! Snapshots that are true of one moment, although owners take and release names without telling the
//! daemon.
//!
//! While the daemon asks the engine, only the words in the clients' maps can change. So the daemon reads
//! the words before and after the question. If they are equal, the answer is true of one moment. If they
//! still differ after a few tries, the daemon recalls the owners whose words have changed. A word that
//! changes after its recall belongs to a lock that is being released, and each lock is released only
//! once. So the tries come to an end.

use std::{cell::Cell, collections::HashMap, future::Future};

use navlock_core::{
    ClientId, Error, Inspection, LockInfo, LockManagerSnapshot, Position, ResourceName, host,
};

use navlock_wire::ToDaemon;

use super::{
    answers::{Answer, Answered},
    delegations::{Looks, release},
    state::Daemon,
};

/// How often the daemon tries before it recalls owners.
pub(super) const TRIES: usize = 3;

impl Daemon {
    /// The words that this question is about, unless there are none.
    pub(super) fn words_for(&self, question: &ToDaemon) -> Option<Looks> {
        let (bucket, name) = match question {
            ToDaemon::Query { bucket, .. } => (bucket, None),
            ToDaemon::Inspect { bucket, name, .. } => (bucket, name.as_ref()),
            ToDaemon::Position { bucket, name, .. } => (bucket, Some(name)),
            _ => return None,
        };
        self.end_left_orphans(bucket, name);
        self.words(bucket, name)
    }

    fn words(&self, bucket: &str, name: Option<&ResourceName>) -> Option<Looks> {
        let delegations = self.delegations()?;
        loop {
            let (words, freed) = delegations.look(bucket, name);
            if freed.is_empty() {
                return (!words.is_empty()).then_some(words);
            }
            release(freed);
        }
    }

    /// Answers a question. `None` if there are `words` as they were before, and they have changed.
    pub(super) async fn answer(
        &self,
        question: ToDaemon,
        words: Option<Looks>,
    ) -> Option<Answered> {
        let (query, found) = match question {
            ToDaemon::Query { query, bucket } => {
                let found = self.query(&bucket, words).await;
                (query, found.map(|found| found.map(Answer::Snapshot)))
            }
            ToDaemon::Inspect { query, bucket, name } => {
                let found = self.inspect(&bucket, name.as_ref(), words).await;
                (query, found.map(|found| found.map(Answer::Inspection)))
            }
            ToDaemon::Position { query, bucket, name, client_id } => {
                let client_id = ClientId::from_bytes(client_id);
                let found = self.position(&bucket, &name, client_id, words).await;
                (query, found.map(|found| found.map(Answer::Position)))
            }
            _ => return None,
        };
        Some((query, found.transpose()?))
    }

    /// What is held and what is pending in a bucket.
    async fn query(
        &self,
        bucket: &str,
        words: Option<Looks>,
    ) -> Result<Option<LockManagerSnapshot>, Error> {
        let locks = self.user_agent.lock_manager(bucket);
        let found = self.at_one_moment(bucket, None, words, || locks.query()).await?;
        Ok(found.map(|(mut snapshot, seen)| {
            self.leave_out_idle(&mut snapshot.held, seen.as_ref(), |lock| lock);
            snapshot
        }))
    }

    /// What is held and what is pending in a bucket, with all details.
    async fn inspect(
        &self,
        bucket: &str,
        name: Option<&ResourceName>,
        words: Option<Looks>,
    ) -> Result<Option<Inspection>, Error> {
        let locks = self.user_agent.lock_manager(bucket);
        let ask = || locks.inspect(name.cloned());
        let found = self.at_one_moment(bucket, name, words, ask).await?;
        Ok(found.map(|(mut inspection, seen)| {
            self.leave_out_idle(&mut inspection.held, seen.as_ref(), |held| &held.lock);
            self.complete(&mut inspection, bucket, name, seen.as_ref());
            inspection
        }))
    }

    /// Where an agent stands in the queue of a name. The cost depends on the queue before the agent, and not
    /// on the rest of the bucket.
    async fn position(
        &self,
        bucket: &str,
        name: &ResourceName,
        client_id: ClientId,
        words: Option<Looks>,
    ) -> Result<Option<Position>, Error> {
        let locks = self.user_agent.lock_manager(bucket);
        let (backend, _) = host::backend(&locks)?;
        let ask = || backend.position(name.clone(), client_id);
        let is_told = words.is_some();
        let found = self.at_one_moment(bucket, Some(name), words, ask).await?;
        let Some((mut position, seen)) = found else { return Ok(None) };
        if seen.as_ref().is_some_and(Looks::has_idle) {
            // The engine also counts locks as held that their owners do not hold. Only a list of all
            // locks can leave these out.
            let all = self.inspect(bucket, Some(name), seen.filter(|_| is_told)).await?;
            return Ok(all.map(|all| Position::among(all, name, client_id)));
        }
        let holder = position.holder.take().into_iter().collect();
        let mut holder = Inspection::new(holder, Vec::new());
        self.complete(&mut holder, bucket, Some(name), seen.as_ref());
        position.holder = holder.held.pop();
        Ok(Some(position))
    }

    async fn at_one_moment<T, A>(
        &self,
        bucket: &str,
        name: Option<&ResourceName>,
        words: Option<Looks>,
        ask: impl Fn() -> A,
    ) -> Result<Option<(T, Option<Looks>)>, Error>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let Some(delegations) = self.delegations() else { return Ok(Some((ask().await?, None))) };
        let is_told = words.is_some();
        let mut before = words.unwrap_or_else(|| self.words(bucket, name).unwrap_or_default());
        for tries in 1.. {
            let found = ask().await?;
            let (after, _) = delegations.look(bucket, name);
            if before == after {
                return Ok(Some((found, Some(after))));
            }
            if is_told {
                break;
            }
            if tries >= TRIES {
                release(delegations.recall_changed(&before, &after));
            }
            before = self.words(bucket, name).unwrap_or_default();
        }
        Ok(None)
    }

    /// Leaves out the locks that nobody held when the words were read.
    fn leave_out_idle<T>(
        &self,
        held: &mut Vec<T>,
        looks: Option<&Looks>,
        lock: impl Fn(&T) -> &LockInfo,
    ) {
        let (Some(delegations), Some(looks)) = (self.delegations(), looks) else { return };
        let idle = delegations.idle(looks);
        if idle.is_empty() {
            return;
        }
        let mut counts: HashMap<&LockInfo, Cell<usize>> = HashMap::new();
        for lock in &idle {
            *counts.entry(lock).or_default().get_mut() += 1;
        }
        held.retain(|one| {
            let Some(count) = counts.get(lock(one)) else { return true };
            // Equal locks cannot be told apart, so as many of them are left out as were
            // idle.
            let left = count.get();
            count.set(left.saturating_sub(1));
            left == 0
        });
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{future::ready, os::unix::fs::FileExt};

    use futures_util::FutureExt;
    use navlock_core::{ClientId, Mode, host::RequestKind};
    use navlock_delegation::OwnerMap;
    use navlock_engine::RequestId;

    use super::*;
    use crate::{Place, client_files::ClientFiles, daemon::shared_client::lock};

    #[test]
    fn a_word_that_goes_on_changing_though_it_was_recalled_ends_with_its_lock() {
        // No real owner does this: it says that its hold is lost, that it is not lost, and that it
        // has ended.
        for states in [[0b0_0111, 0b0_1111], [0b0_0111, 0]] {
            let directory = tempfile::tempdir().unwrap();
            let files = ClientFiles::of(&Place::at(directory.path().join("sock")));
            let own = files.register([1; 16]).unwrap();
            let map = OwnerMap::make(own.file()).unwrap();
            let daemon = Daemon::of_memory(Some(files));
            let connected = daemon.enter([1; 16], false, None);
            assert!(connected.map(map.nonce()).is_some());
            let mut client = lock(&connected.client);
            client.open_agent(0, ClientId::random(), "app".to_owned()).unwrap();
            let (id, name) = (RequestId::from_parts(1, 1), "db".try_into().unwrap());
            let kind = RequestKind::Wait(Mode::Exclusive);
            client.request(0, id, name, kind, Some(0)).unwrap();
            drop(client);
            assert!(map.slot(0).unwrap().word().look().is_held());

            let asked = Cell::new(0);
            let ask = || {
                asked.set(asked.get() + 1);
                assert!(asked.get() < 20, "it is looked at for ever");
                let word: u64 = states[(asked.get() + 1) % 2] | 1 << 5;
                own.file().write_all_at(&word.to_ne_bytes(), 256).unwrap();
                ready(Ok(()))
            };
            let found = daemon.at_one_moment("app", None, None, ask).now_or_never();
            assert!(found.is_some_and(|found| found.is_ok()));
            assert_eq!(lock(&connected.client).requests.count(), (0, 0));
        }
    }
}
