//! Takes a name away from those who hold it, for a person who has looked at them.

use navlock_core::{
    AgentInfo, FencingToken,
    look::{LockId, LockName},
};
use navlock_wire::{FromDaemon, NotStolen, ToDaemon};

use super::{Control, failed};
use crate::connect_error::{ConnectError, Reason};

impl Control {
    /// Takes a name away from the holders that were seen, and releases it at once, so the first
    /// request that waits for the name is granted next. `from` names the locks that were seen, each
    /// with its fencing token. `info` says who takes the name, for those who lose it. Returns from
    /// how many holders the name was taken. If anybody else holds the name at that moment, the
    /// daemon takes nothing: it checks the holders and takes the name at one moment. Blocks.
    ///
    /// ```no_run
    /// use navlock_broker::{Control, Look, LookOptions, Place, this_process};
    /// # use navlock::look::LockName;
    ///
    /// let (place, name) = (Place::from_env()?, LockName::new("default", "db".try_into()?));
    /// let seen = Look::once(place.clone(), LookOptions::default())?;
    /// let held = seen.queues.get(&name).map_or(&[][..], |queue| &queue.held);
    /// let from: Vec<_> = held.iter().filter_map(|held| Some((held.id, held.token?))).collect();
    /// // A person looks at them, and decides.
    /// match Control::connect(&place)?.steal(&name, &from, &this_process())? {
    ///     Ok(count) => println!("it was taken from {count}"),
    ///     Err(why) => println!("{why}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the daemon does not answer. In that case it is not known whether the name was taken.
    pub fn steal(
        &mut self,
        name: &LockName,
        from: &[(LockId, FencingToken)],
        info: &AgentInfo,
    ) -> Result<Result<usize, NotStolen>, ConnectError> {
        self.say_steal(name, from, info).map_err(|reason| failed(&self.place, reason))
    }

    fn say_steal(
        &mut self,
        LockName { bucket, name }: &LockName,
        from: &[(LockId, FencingToken)],
        info: &AgentInfo,
    ) -> Result<Result<usize, NotStolen>, Reason> {
        self.stream.say(&ToDaemon::Steal {
            query: 3,
            bucket: bucket.as_ref().to_owned(),
            name: name.clone(),
            from: from.to_vec(),
            info: info.clone(),
        })?;
        let outcome = self.read_until(|message| match message {
            FromDaemon::Stolen { outcome, .. } => Some(outcome),
            _ => None,
        })?;
        Ok(outcome.map(|count| usize::try_from(count).unwrap_or(usize::MAX)))
    }
}
