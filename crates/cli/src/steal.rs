//! Stealing a lock by hand, from the holders that were seen.

use navlock::{
    FencingToken, Place,
    look::{LockId, LockName, Queue},
    this_process,
};
use navlock_broker::Control;

/// A held lock and its token. All holds of an owned name are the same lock, but their tokens
/// differ.
pub(crate) type Holder = (LockId, FencingToken);

/// Those who hold a name, as far as they are known.
pub(crate) fn holders(queue: &Queue) -> Vec<Holder> {
    queue.held.iter().filter_map(|entry| Some((entry.id, entry.token?))).collect()
}

/// Steals a name from these holders, and from nobody else, and releases it. If that fails, returns
/// the reason. `command` is the description of this program for those who lose the name. Blocks.
pub(crate) fn steal(
    place: &Place,
    name: &LockName,
    from: &[Holder],
    command: &str,
) -> Result<(), String> {
    let mut info = this_process();
    command.clone_into(&mut info.command);
    "stolen by hand".clone_into(&mut info.why);
    let stolen = Control::connect(place).and_then(|mut broker| broker.steal(name, from, &info));
    match stolen {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(why)) => Err(why.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
