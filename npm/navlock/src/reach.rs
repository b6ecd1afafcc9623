//! The user agents of a process, which its realms share.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use navlock::{BrokerReach, ConnectError, ConnectOptions, Place, UserAgent};

/// The user agents whose locks all processes of the machine see, by the broker's socket. A
/// connection lives for as long as a realm uses it.
static OF_THE_MACHINE: Mutex<Option<HashMap<PathBuf, Weak<UserAgent>>>> = Mutex::new(None);

/// The user agent whose locks all of this process sees.
pub(crate) fn process() -> Arc<UserAgent> {
    Arc::new(navlock::in_process())
}

/// A user agent whose locks are seen only through it.
pub(crate) fn private() -> Arc<UserAgent> {
    Arc::new(UserAgent::new())
}

/// The user agent whose locks all users of the broker at this socket see. The user agent connects
/// when it is first asked for something. If there is no broker then, it starts one with `program`.
///
/// # Errors
///
/// If this process may have no more threads or descriptors.
pub(crate) fn machine(
    socket: Option<String>,
    program: Option<String>,
) -> Result<Arc<UserAgent>, ConnectError> {
    // An error in the settings is reported when the user agent connects.
    let place = socket.map_or_else(Place::from_env, |socket| Ok(Place::at(socket)));
    let Ok(place) = place else {
        return BrokerReach::connect_when_needed(ConnectOptions::default())
            .map(|reach| Arc::new(UserAgent::with_reach(reach)));
    };
    at(place, program)
}

/// The user agent whose locks several users of this machine see. The user agent connects when it is first asked for
/// something. Nothing is started: an administrator starts that broker.
///
/// # Errors
///
/// If this process may have no more threads or descriptors.
pub(crate) fn system() -> Result<Arc<UserAgent>, ConnectError> {
    at(Place::of_system(), None)
}

fn at(place: Place, program: Option<String>) -> Result<Arc<UserAgent>, ConnectError> {
    let mut known = OF_THE_MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(user_agent) = known.get(place.socket()).and_then(Weak::upgrade) {
        return Ok(user_agent);
    }
    let socket = place.socket().to_owned();
    let options = ConnectOptions::default().place(place);
    let options = program.into_iter().fold(options, ConnectOptions::program);
    let reach = BrokerReach::connect_when_needed(options)?;
    let user_agent = Arc::new(UserAgent::with_reach(reach));
    known.retain(|_, user_agent| user_agent.strong_count() > 0);
    known.insert(socket, Arc::downgrade(&user_agent));
    Ok(user_agent)
}
