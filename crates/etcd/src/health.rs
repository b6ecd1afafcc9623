//! The state of etcd, for people who look for what is wrong.

use std::time::{Duration, Instant};

use navlock_core::{Error, Unreachable, UnreachableKind};
use navlock_etcd_client::{Client, StatusResponse};
use navlock_machines::thread::runtime;
use tokio::time;

use crate::{
    STORE,
    call_failure::Failure,
    calls::{self, FULL, failures},
    data::{Step, Transaction},
    formats,
    hint::hint,
    keys::BucketKeys,
    load::Turn,
    members::Members,
    options::EtcdOptions,
};

/// How often etcd is written to. The number is odd, so that there is a median.
const ROUNDS: usize = 21;

/// A bucket that nobody uses.
const BUCKET: &str = "navlock doctor";

/// What [`check`] has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The endpoints, in the order in which they were given.
    pub endpoints: Vec<EndpointHealth>,
    /// Why no lock can be granted in this namespace, even if etcd is well: others use the namespace
    /// in the format of another release. `None` if nobody does.
    pub refused: Option<Error>,
    /// How long a write takes, as the median of several. Each lock needs one write. An error if
    /// nothing could be written.
    pub round_trip: Result<Duration, Error>,
    /// How long etcd keeps an agent's locks and requests after it has last heard of the agent.
    pub time_to_live: Duration,
}

/// The state of one endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointHealth {
    /// The endpoint as it was given.
    pub endpoint: String,
    /// What the member there says of itself, or why there was no answer.
    pub member: Result<Member, Error>,
    /// What may help against the error of `member`, if that can be guessed.
    pub remedy: Option<&'static str>,
}

/// What a member of a cluster says of itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member {
    /// The member's release, such as `3.4.23`.
    pub version: String,
    /// The cluster of the member.
    pub cluster: u64,
    /// What the member complains of, such as that it has no room for more.
    pub complaints: Vec<String>,
    /// Whether the member complains that it has no room for more.
    pub is_full: bool,
}

/// Asks each endpoint for its state, and tries whether the namespace can be written to.
///
/// This is for people: it takes up to some seconds. It blocks the thread, which must not be one of
/// a tokio runtime.
///
/// # Errors
///
/// [`Error::Refused`] if the options cannot be used. The answer tells what is wrong with etcd.
pub fn check(options: &EtcdOptions) -> Result<Health, Error> {
    options.check()?;
    Ok(runtime(STORE)?.block_on(async {
        let mut endpoints = Vec::with_capacity(options.endpoints.len());
        for endpoint in &options.endpoints {
            let member = member(endpoint, options).await;
            let failed = member.as_ref().err();
            let remedy = failed.and_then(|error| hint(&error.to_string(), options));
            endpoints.push(EndpointHealth { endpoint: endpoint.clone(), member, remedy });
        }
        let answer = endpoints.iter().filter(|endpoint| endpoint.member.is_ok());
        let answer: Vec<_> = answer.map(|endpoint| &*endpoint.endpoint).collect();
        let (refused, round_trip) = match reach(&answer, options).await {
            Ok(members) => match formats::look(&members, options).await {
                // Nothing is written in this case, because the users of the other format would find
                // the key.
                Err(error @ Error::Refused(_)) => (Some(error.clone()), Err(error)),
                // All other problems show when the namespace is written to.
                _ => (
                    None,
                    round_trip(members, options).await.map_err(|failure| failure.error(STORE)),
                ),
            },
            Err(error) => (None, Err(error)),
        };
        Health { endpoints, refused, round_trip, time_to_live: options.keeper.times.time_to_live }
    }))
}

/// Connects to those endpoints that answer.
async fn reach(endpoints: &[&str], options: &EtcdOptions) -> Result<Members, Error> {
    if endpoints.is_empty() {
        return Err(Unreachable::new(UnreachableKind::Unavailable, "no endpoint answers").into());
    }
    let mut those = options.clone();
    those.endpoints = endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect();
    Members::connect(those).await
}

/// What the member at this endpoint says of itself.
async fn member(endpoint: &str, options: &EtcdOptions) -> Result<Member, Error> {
    let credentials = options.credentials_now().map_err(Error::Refused)?;
    let asked = async {
        // This does not log in, because most releases do not require that here, and an unknown user
        // is no fault of the endpoint.
        let anonymous = status(endpoint, options.client_without_user(&credentials)).await;
        match anonymous {
            Err(navlock_etcd_client::Error::GRpcStatus(_)) => {
                status(endpoint, options.client(&credentials)).await
            }
            answer => answer,
        }
    };
    let answered = time::timeout(options.keeper.times.timeout, asked).await;
    let answered =
        answered.map_err(|_| Failure::timed_out(options.keeper.times.timeout).error(STORE))?;
    let status = answered.map_err(|error| failures::of(error).error(STORE))?;
    Ok(Member {
        version: status.version.clone(),
        cluster: status.header.unwrap_or_default().cluster_id,
        complaints: status.errors.clone(),
        is_full: status.errors.iter().any(|complaint| is_full(complaint)),
    })
}

/// Whether a member complains of its size, by the name of the alarm or in the words of a write's error.
fn is_full(complaint: &str) -> bool {
    complaint.contains("NOSPACE") || complaint.contains(FULL)
}

async fn status(
    endpoint: &str,
    options: navlock_etcd_client::ConnectOptions,
) -> Result<StatusResponse, navlock_etcd_client::Error> {
    Client::connect([endpoint], Some(options)).await?.status().await
}

/// How long a write takes. The key is under a lease, so that it is removed even if this process
/// dies.
async fn round_trip(members: Members, options: &EtcdOptions) -> Result<Duration, Failure> {
    let timeout = options.keeper.times.call();
    let (lease, _) = calls::lease(&members, options.seconds()).await?;
    let lease = lease.id;
    let key = BucketKeys::new(&options.keeper.namespace, BUCKET).probe(lease);
    let mut times = Vec::with_capacity(ROUNDS);
    let mut failed = None;
    while times.len() < ROUNDS && failed.is_none() {
        let put = Step::Put { key: key.clone(), value: Vec::new(), lease };
        let write = Transaction { then: vec![put], ..Transaction::default() };
        let sent = Instant::now();
        failed = calls::transact(&members, write, Turn::Waits).await.err();
        times.push(sent.elapsed());
    }
    calls::revoke(&members, lease, timeout).await;
    times.sort();
    failed.map_or(Ok(times[times.len() / 2]), Err)
}
