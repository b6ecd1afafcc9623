//! What is held at one moment, though owners take names and release them without a word.
//!
//! Nothing but their words changes while we look at the engine. So they are read before that and after
//! it: if they are the same, that was one moment. If they are not, after a few tries, those are recalled
//! that have changed, and there are so many only.

use std::future::Future;

use navlock_core::{Error, Inspection, LockInfo, LockManager, LockManagerSnapshot, ResourceName};

use super::{
    delegations::{Looks, release},
    house::House,
};

/// How often it is tried before owners are recalled.
const TRIES: usize = 3;

impl House {
    /// What is held and what is pending in a bucket.
    pub(super) async fn query(
        &self,
        locks: &LockManager,
        bucket: &str,
    ) -> Result<LockManagerSnapshot, Error> {
        let (mut snapshot, seen) = self.at_one_moment(bucket, None, || locks.query()).await?;
        self.leave_out_idle(&mut snapshot.held, seen.as_ref(), |lock| lock);
        Ok(snapshot)
    }

    /// The same with all that is known of it, and what was seen of the words.
    pub(super) async fn inspect(
        &self,
        locks: &LockManager,
        bucket: &str,
        name: Option<&ResourceName>,
    ) -> Result<(Inspection, Option<Looks>), Error> {
        let ask = || locks.inspect(name.cloned());
        let (mut inspection, seen) = self.at_one_moment(bucket, name, ask).await?;
        self.leave_out_idle(&mut inspection.held, seen.as_ref(), |held| &held.lock);
        Ok((inspection, seen))
    }

    async fn at_one_moment<T, A>(
        &self,
        bucket: &str,
        name: Option<&ResourceName>,
        ask: impl Fn() -> A,
    ) -> Result<(T, Option<Looks>), Error>
    where
        A: Future<Output = Result<T, Error>>,
    {
        let Some(delegations) = self.delegations() else { return Ok((ask().await?, None)) };
        let mut tries = 0;
        loop {
            let (before, freed) = delegations.look(bucket, name);
            if !freed.is_empty() {
                release(freed);
                continue;
            }
            let found = ask().await?;
            let (after, _) = delegations.look(bucket, name);
            if before == after {
                return Ok((found, Some(after)));
            }
            tries += 1;
            if tries >= TRIES {
                release(delegations.recall_changed(&before, &after));
            }
        }
    }

    /// Leaves out what nobody held when that was seen.
    fn leave_out_idle<T>(
        &self,
        held: &mut Vec<T>,
        looks: Option<&Looks>,
        lock: impl Fn(&T) -> &LockInfo,
    ) {
        let (Some(delegations), Some(looks)) = (self.delegations(), looks) else { return };
        let mut idle = delegations.idle(looks);
        if idle.is_empty() {
            return;
        }
        held.retain(|one| {
            let lock = lock(one);
            let likeness = (lock.name.clone(), lock.mode, lock.client_id);
            // What is alike cannot be told apart: so many of them are left out.
            match idle.get_mut(&likeness).filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    false
                }
                None => true,
            }
        });
    }
}
