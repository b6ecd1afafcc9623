//! What a user who shares the daemon with others may do to what is another's.

use navlock_core::{ResourceName, look::LockId};
use navlock_wire::ToDaemon;

use super::{guests::User, shared_client::lock, state::Daemon};

impl Daemon {
    /// Why this user may not steal the name, if it may not: another user holds it.
    pub(super) fn forbids_theft(
        &self,
        user: &User,
        bucket: &str,
        name: &ResourceName,
    ) -> Option<String> {
        if user.may_all() {
            return None;
        }
        if !user.may_steal() {
            return Some("this user steals too often at once; try again".to_owned());
        }
        let holders = match self.holders(bucket, name) {
            Ok(holders) => self.directory.find(holders),
            Err(why) => return Some(why),
        };
        let others = holders.iter().find_map(|holder| {
            let holder = lock(holder);
            let other = holder.user().filter(|other| !user.may(other))?;
            Some(other.name().to_owned())
        });
        others.map(|other| format!("{other} holds it; only {other} and root may take it away"))
    }

    /// Whether a message of this user counts. Who says that it waits inside a lock says something of the lock's holder, to
    /// whom a deadlock may be told because of that.
    pub(super) fn counts(&self, user: &User, message: &ToDaemon) -> bool {
        let ToDaemon::Inside { lock, .. } = message else { return true };
        user.may_all() || self.is_of(user, *lock)
    }

    /// Whether this lock is of a client of this user, which may still have to come back from an earlier daemon.
    fn is_of(&self, user: &User, id: LockId) -> bool {
        if self.directory.key_of(id.client_id).is_some_and(|client| user.has(client)) {
            return true;
        }
        let whose = self.directory.find([id.client_id]);
        whose.iter().any(|client| lock(client).user().is_some_and(|other| user.may(other)))
    }
}
