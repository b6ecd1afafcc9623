//! The user agents of a process, which its realms share.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use navlock::{BrokerReach, ConnectError, ConnectOptions, Place, UserAgent};

/// The user agents whose locks all processes of the machine see, by the broker's socket, if one was chosen. A
/// connection lives for as long as a realm uses it.
static OF_THE_MACHINE: Mutex<Option<HashMap<Option<PathBuf>, Weak<UserAgent>>>> = Mutex::new(None);

/// The user agent whose locks all of this process sees.
pub(crate) fn process() -> Arc<UserAgent> {
    Arc::new(navlock::in_process())
}

/// A user agent whose locks are seen only through it.
pub(crate) fn private() -> Arc<UserAgent> {
    Arc::new(UserAgent::new())
}

/// The user agent whose locks all users of the broker at this socket see, or, without a socket, of the brokers with
/// which the buckets live. The user agent connects
/// when it is first asked for something. If there is no broker then, it starts one with `program`.
///
/// # Errors
///
/// If this process may have no more threads or descriptors.
pub(crate) fn machine(
    socket: Option<String>,
    program: Option<String>,
) -> Result<Arc<UserAgent>, ConnectError> {
    at(socket.map(Place::at), program)
}

/// The user agent whose locks several users of this machine see. The user agent connects when it is first asked for
/// something. Nothing is started: an administrator starts that broker.
///
/// # Errors
///
/// If this process may have no more threads or descriptors.
pub(crate) fn system() -> Result<Arc<UserAgent>, ConnectError> {
    at(Some(Place::of_system()), None)
}

/// The user agent of this broker, or of those with which the buckets live by the settings.
fn at(place: Option<Place>, program: Option<String>) -> Result<Arc<UserAgent>, ConnectError> {
    let mut known = OF_THE_MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let socket = place.as_ref().map(|place| place.socket().to_owned());
    if let Some(user_agent) = known.get(&socket).and_then(Weak::upgrade) {
        return Ok(user_agent);
    }
    let options = place.into_iter().fold(ConnectOptions::default(), ConnectOptions::place);
    let options = program.into_iter().fold(options, ConnectOptions::program);
    let reach = BrokerReach::connect_when_needed(options)?;
    let user_agent = Arc::new(UserAgent::with_reach(reach));
    known.retain(|_, user_agent| user_agent.strong_count() > 0);
    known.insert(socket, Arc::downgrade(&user_agent));
    Ok(user_agent)
}
