//! The reaches, and the user agents of this process, which its agents share.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use navlock::{BrokerReach, ConnectOptions, Error, Place, UserAgent, blocking::block_on};
use pyo3::prelude::*;

use crate::{
    error::{NotSupportedError, raise},
    own::{Own, lock},
};

/// How far the locks of an agent are seen, as its Python half says it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reach {
    kind: String,
    /// Of a broker: its socket. Of etcd: its endpoints. Of PostgreSQL: its URL, and one to listen by.
    at: Vec<String>,
    user: Option<String>,
    password: Option<String>,
    /// etcd's namespace, or PostgreSQL's schema.
    namespace: Option<String>,
    /// In milliseconds.
    time_to_live: Option<u64>,
}

/// The user agents of this process, by their reach. A connection lives as long as the process.
static OPEN: Mutex<Option<Own<HashMap<Reach, UserAgent>>>> = Mutex::new(None);

/// The user agent of this reach. A request that would wait for itself in a circle fails.
pub(crate) fn user_agent(py: Python<'_>, reach: &Reach) -> PyResult<UserAgent> {
    let known = |open: &HashMap<_, UserAgent>| open.get(reach).cloned();
    if let Some(open) = lock(&OPEN).as_ref().and_then(Own::get).and_then(known) {
        return Ok(open);
    }
    // No mutex is locked while this waits.
    let opened = py.detach(|| open(reach))?.fail_on_deadlock();
    let mut open = lock(&OPEN);
    let mut all = open.as_ref().and_then(Own::get).cloned().unwrap_or_default();
    // Another thread may have been faster.
    let user_agent = all.entry(reach.clone()).or_insert(opened).clone();
    *open = Some(Own::new(all));
    Ok(user_agent)
}

fn open(reach: &Reach) -> PyResult<UserAgent> {
    match reach.kind.as_str() {
        "process" => Ok(UserAgent::new()),
        "machine" => broker(reach.at.first().map(Place::at)),
        "system" => broker(Some(Place::of_system())),
        "etcd" => etcd(reach).map_err(|error| raise(&error)),
        "postgres" => postgres(reach).map_err(|error| raise(&error)),
        other => Err(NotSupportedError::new_err(format!("there is no reach {other:?}"))),
    }
}

/// Connects when it is first asked for something.
fn broker(place: Option<Place>) -> PyResult<UserAgent> {
    let options = place.into_iter().fold(ConnectOptions::default(), ConnectOptions::place);
    let reach = BrokerReach::connect_when_needed(options);
    reach.map(UserAgent::with_reach).map_err(|error| raise(&Error::from(error)))
}

fn etcd(reach: &Reach) -> Result<UserAgent, Error> {
    let mut options = navlock::EtcdOptions::new(reach.at.iter().cloned());
    if let (Some(user), Some(password)) = (&reach.user, &reach.password) {
        options = options.user(user, password);
    }
    if let Some(namespace) = &reach.namespace {
        options = options.namespace(namespace);
    }
    if let Some(time) = reach.time_to_live {
        options = options.time_to_live(Duration::from_millis(time));
    }
    block_on(navlock::etcd(options))
}

fn postgres(reach: &Reach) -> Result<UserAgent, Error> {
    let mut at = reach.at.iter();
    let mut options = navlock::PostgresOptions::new(at.next().cloned().unwrap_or_default());
    if let Some(url) = at.next() {
        options = options.listen_url(url);
    }
    if let Some(password) = &reach.password {
        options = options.password(password);
    }
    if let Some(schema) = &reach.namespace {
        options = options.schema(schema);
    }
    if let Some(time) = reach.time_to_live {
        options = options.time_to_live(Duration::from_millis(time));
    }
    block_on(navlock::postgres(options))
}
