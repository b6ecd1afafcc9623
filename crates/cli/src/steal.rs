//! Locks that are taken by hand, from those who were seen to hold them.

use navlock::{
    FencingToken, Place,
    look::{LockId, LockName},
    this_process,
};
use navlock_broker::Control;

/// A lock that is held, and its token: of a name that is owned, each hold is the same lock.
pub(crate) type Holder = (LockId, FencingToken);

/// Takes a name from these, and from nobody else, and lets go of it; why not, if it was not. `command` is as
/// what we are known to those who lose it. Blocks.
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
