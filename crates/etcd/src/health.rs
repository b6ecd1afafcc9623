//! How etcd is, for people who look for what is wrong.

use std::time::{Duration, Instant};

use navlock_core::Error;
use navlock_etcd_client::{Client, StatusResponse};
use tokio::time::timeout;

use crate::{
    calls,
    clusters::entry::Entry,
    data::{Step, Transaction},
    failure::Failure,
    formats,
    hint::hint,
    keys::BucketKeys,
    members::Members,
    options::EtcdOptions,
    strays::on_runtime,
};

/// How often etcd is written to; an odd number has a middle.
const ROUNDS: usize = 21;

/// A bucket that nobody uses.
const BUCKET: &str = "navlock doctor";

/// What [`check`] has found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// Each endpoint, in the order in which they were given.
    pub endpoints: Vec<EndpointHealth>,
    /// Why no lock can be had in this namespace, however well etcd is, if that is so: others use it in a format of
    /// another release.
    pub refused: Option<Error>,
    /// How long a write takes, as each lock needs one: the median of some. Or why there is none.
    pub round_trip: Result<Duration, Error>,
    /// For how long etcd keeps what an agent has after it was last heard of.
    pub time_to_live: Duration,
}

/// How it is with one endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointHealth {
    /// As it was given.
    pub endpoint: String,
    /// What the member there says of itself, or why nothing is heard of it.
    pub member: Result<Member, Error>,
    /// What may be done about that, where it can be guessed.
    pub remedy: Option<&'static str>,
}

/// What a member of a cluster says of itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member {
    /// Its release, as in `3.4.23`.
    pub version: String,
    /// The cluster that it is of.
    pub cluster: u64,
    /// What it complains of, such as that there is no room for more.
    pub complaints: Vec<String>,
}

/// Asks each endpoint how it is, and tries whether the namespace can be written to.
///
/// For people: it takes up to some seconds. Blocks the thread, which must not be one of a tokio
/// runtime.
///
/// # Errors
///
/// [`Error::Refused`] if the options cannot be used. What is wrong with etcd is in the answer.
pub fn check(options: &EtcdOptions) -> Result<Health, Error> {
    options.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Unreachable(format!("{error} at a runtime")))?;
    Ok(runtime.block_on(async {
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
                // Nothing is written there: whoever uses the other format would find it.
                Err(error @ Error::Refused(_)) => (Some(error.clone()), Err(error)),
                // What else is wrong is found when it is written to.
                _ => (None, round_trip(members, options).await.map_err(Failure::error)),
            },
            Err(error) => (None, Err(error)),
        };
        Health { endpoints, refused, round_trip, time_to_live: options.time_to_live }
    }))
}

/// Connects by those endpoints that answer.
async fn reach(endpoints: &[&str], options: &EtcdOptions) -> Result<Members, Error> {
    if endpoints.is_empty() {
        return Err(Error::Unreachable("no endpoint answers".to_owned()));
    }
    let mut those = options.clone();
    those.endpoints = endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect();
    Members::connect(those).await
}

/// Sees that this etcd may be used by who knows of no other: that it is none of several which share the names of
/// locks, see [`EtcdClusters`](crate::EtcdClusters). Nothing is written.
///
/// Blocks the thread, which must not be one of a tokio runtime.
///
/// # Errors
///
/// [`Error::Refused`] if it is one of several, or the options cannot be used; [`Error::Unreachable`] if etcd does not
/// answer.
pub fn check_alone(options: &EtcdOptions) -> Result<(), Error> {
    on_runtime(options, async |members, _| {
        Entry::Alone.check(&members, options).await.map_err(Failure::Refused)
    })
}

/// What the member at this endpoint says of itself.
async fn member(endpoint: &str, options: &EtcdOptions) -> Result<Member, Error> {
    let credentials = options.credentials_now().map_err(Error::Refused)?;
    let asked = async {
        // Without logging in, which most releases do not ask for here: that the user is unknown is
        // not a matter of the endpoint.
        let anonymous = status(endpoint, options.client_without_user(&credentials)).await;
        match anonymous {
            Err(navlock_etcd_client::Error::GRpcStatus(_)) => {
                status(endpoint, options.client(&credentials)).await
            }
            answer => answer,
        }
    };
    let answered = timeout(options.timeout, asked).await.map_err(|_| {
        let why = format!("no answer within {:?}", options.timeout);
        Failure::Unknown(why).error()
    })?;
    let status = answered.map_err(|error| Failure::from(error).error())?;
    Ok(Member {
        version: status.version().to_owned(),
        cluster: status.header().map_or(0, navlock_etcd_client::ResponseHeader::cluster_id),
        complaints: status.errors().to_vec(),
    })
}

async fn status(
    endpoint: &str,
    options: navlock_etcd_client::ConnectOptions,
) -> Result<StatusResponse, navlock_etcd_client::Error> {
    Client::connect([endpoint], Some(options)).await?.status().await
}

/// How long a write takes. A lease takes it away again, whatever becomes of us.
async fn round_trip(members: Members, options: &EtcdOptions) -> Result<Duration, Failure> {
    let patience = options.call();
    let (lease, _) = calls::lease(members.clone(), options.seconds(), patience).await?;
    let lease = lease.id;
    let key = BucketKeys::new(&options.namespace, BUCKET).probe(lease);
    let mut times = Vec::with_capacity(ROUNDS);
    let mut failed = None;
    while times.len() < ROUNDS && failed.is_none() {
        let put = Step::Put { key: key.clone(), value: Vec::new(), lease };
        let write = Transaction { then: vec![put], ..Transaction::default() };
        let sent = Instant::now();
        failed = calls::transaction(members.clone(), write, patience).await.err();
        times.push(sent.elapsed());
    }
    calls::revoke(members, lease, patience, patience).await;
    times.sort();
    failed.map_or(Ok(times[times.len() / 2]), Err)
}
