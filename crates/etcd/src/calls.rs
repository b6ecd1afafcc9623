//! Calls to etcd. Each failure tells what to do about it.

pub(crate) mod convert;
pub(crate) mod failures;

use std::{pin::pin, time::Duration};

use navlock_etcd_client::{Client, DeleteRangeRequest, RangeRequest, ResponseHeader};
use tokio::time::{self, Instant, sleep};

pub(crate) use self::failures::FULL;
use self::failures::is_end;
use crate::{
    call_failure::Failure,
    clock::Uptime,
    data::{Answer, KeyValue, Listing, Step, Transaction, prefix_end},
    key_store::LeaseKeys,
    lease::{LeaseName, Renewal},
    load::{Turn, about},
    members::{Member, Members},
};

/// Makes a call. After the [time](navlock_machines::times::Times::call) that one call may take, it is late.
///
/// The answer to a late call is waited for as long as the connection is used: if the call was made again,
/// etcd would do it twice.
async fn call<T>(
    members: &Members,
    turn: Turn,
    call: impl AsyncFnOnce(Client) -> Result<T, navlock_etcd_client::Error>,
) -> Result<T, Failure> {
    let timeout = members.call_timeout();
    let running = match turn {
        Turn::Waits => Some(members.load.enter().await),
        Turn::Passes => None,
    };
    let running = running.as_ref();
    let Member { client, generation, endpoint, .. } = members.best(timeout).await;
    let sent = Instant::now();
    let late = async {
        sleep(timeout).await;
        running.inspect(|running| running.note_late());
        members.until_left(generation, timeout).await;
    };
    let call = pin!(call(client));
    let failure = tokio::select! {
        biased;
        answer = call => match answer {
            Ok(answer) => {
                running.filter(|_| sent.elapsed() < timeout).inspect(|running| running.note_served());
                return Ok(answer);
            }
            Err(error) => {
                if is_end(&error) {
                    members.avoid(generation);
                }
                failures::of(error)
            }
        },
        () = late => Failure::timed_out(timeout),
    };
    match failure {
        Failure::Unknown(why) => {
            members.doubt(generation);
            let message = format!("{why}, at {endpoint}");
            Err(Failure::Unknown(why.with_message(message)))
        }
        // The credentials were replaced meanwhile, so the next try may succeed.
        Failure::Refused(error) if members.renew() => Err(Failure::passing(error)),
        failure => Err(failure),
    }
}

pub(crate) async fn transact(
    members: &Members,
    transaction: Transaction,
    turn: Turn,
) -> Result<Answer, Failure> {
    // To remove one key without a check costs etcd less by a plain delete.
    if let ([], [Step::Delete(key)]) = (&*transaction.when, &*transaction.then) {
        let ask = async |mut client: Client| client.delete(DeleteRangeRequest::key(&**key)).await;
        return Ok(convert::deleted(&call(members, turn, ask).await?));
    }
    let ask = async |mut client: Client| client.txn(convert::txn(transaction)).await;
    Ok(convert::answer(call(members, turn, ask).await?))
}

/// How many keys a page has at most. For each page, etcd goes through all keys that remain, to count them.
const PAGE: usize = 5000;

/// About how many bytes a page should have. If the values are large, the next page has fewer keys.
const PAGE_BYTES: usize = 4 << 20;

/// How many bytes are listed at most, if not everything is asked for.
const MOST_BYTES: usize = 64 << 20;

/// How often a list is begun at most, because etcd no longer has the revision of its first page.
const BEGINNINGS: u32 = 4;

/// Lists the keys below this prefix as of one revision, which is `at`, or 0 for the one that etcd has
/// by then: the first ones, about `most` of them.
///
/// This goes page by page, so that neither etcd nor this process handles all keys at once, and other
/// calls do not have to wait for that.
pub(crate) async fn list(
    members: &Members,
    prefix: &[u8],
    (most, at): (usize, i64),
) -> Result<Listing, Failure> {
    for _ in 0..BEGINNINGS {
        match list_once(members, prefix, (most, at)).await {
            Err(Failure::NoRevision) => {}
            result => return result,
        }
    }
    Err(Failure::unknown("it forgot each list before the end of it"))
}

/// # Errors
///
/// [`Failure::NoRevision`] if etcd has forgotten the revision of the first page before the last
/// page was read, or has lost its data.
async fn list_once(
    members: &Members,
    prefix: &[u8],
    (most, at): (usize, i64),
) -> Result<Listing, Failure> {
    let (mut start, end) = (prefix.to_vec(), prefix_end(prefix));
    let (mut limit, mut bytes) = (PAGE, 0);
    let mut listed = Listing { revision: at, ..Listing::default() };
    loop {
        let page = RangeRequest {
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            revision: listed.revision,
            ..RangeRequest::range(&*start, &*end)
        };
        let get = async |mut client: Client| client.get(page).await;
        let answer = call(members, Turn::Waits, get).await?;
        let ResponseHeader { cluster_id: cluster, revision, .. } =
            answer.header.unwrap_or_default();
        if listed.found.is_empty() {
            listed.cluster = cluster;
            listed.revision = if at == 0 { revision } else { at };
        }
        if cluster != listed.cluster || revision < listed.revision {
            return Err(Failure::NoRevision);
        }
        let count = u64::try_from(answer.count).unwrap_or_default();
        let found = answer.kvs;
        listed.left_out = count.saturating_sub(found.len() as u64);
        let Some(last) = found.last() else { return Ok(listed) };
        // The smallest key after the last one.
        start = [&*last.key, &[0]].concat();
        let size: usize = found.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        limit = (found.len() * PAGE_BYTES / size.max(1)).clamp(1, PAGE);
        bytes += size;
        listed.found.extend(found.into_iter().map(convert::key_value));
        let is_enough = listed.found.len() >= most || most < usize::MAX && bytes >= MOST_BYTES;
        if listed.left_out == 0 || is_enough {
            return Ok(listed);
        }
    }
}

/// Gets a new lease.
pub(crate) async fn lease(
    members: &Members,
    seconds: i64,
) -> Result<(LeaseName, Renewal), Failure> {
    let mut sent = Uptime::now();
    // Like a keepalive, it waits for no other call.
    let answer = call(members, Turn::Passes, async |mut client| {
        sent = Uptime::now();
        client.lease_grant(seconds).await
    });
    let answer = answer.await?;
    let seconds = u64::try_from(answer.ttl).unwrap_or_default();
    let cluster = answer.header.unwrap_or_default().cluster_id;
    let lease = LeaseName { cluster, id: answer.id };
    Ok((lease, Renewal { sent, time_to_live: Duration::from_secs(seconds) }))
}

/// The keys under a lease.
pub(crate) async fn under(members: &Members, lease: i64) -> Result<LeaseKeys, Failure> {
    let ask = async |mut client: Client| client.lease_keys(lease).await;
    let found = call(members, Turn::Waits, ask).await?;
    let cluster = found.header.unwrap_or_default().cluster_id;
    Ok(LeaseKeys { cluster, keys: found.keys })
}

/// Reads one key, if it is there.
pub(crate) async fn get(
    members: &Members,
    key: Vec<u8>,
    turn: Turn,
) -> Result<Option<KeyValue>, Failure> {
    let ask = async |mut client: Client| client.get(RangeRequest::key(key)).await;
    let answer = call(members, turn, ask).await?;
    Ok(answer.kvs.into_iter().next().map(convert::key_value))
}

/// Reads the first keys of a range: none only if the range is empty.
pub(crate) async fn some_keys(
    members: &Members,
    (start, end): (Vec<u8>, Vec<u8>),
) -> Result<Vec<Vec<u8>>, Failure> {
    let ask = async |mut client: Client| {
        let some = RangeRequest::range(start, end);
        client.get(RangeRequest { keys_only: true, limit: 256, ..some }).await
    };
    let answer = call(members, Turn::Waits, ask).await?;
    Ok(answer.kvs.into_iter().map(|kv| kv.key).collect())
}

/// Ends a lease, with all keys under it. Tries until the lease ends by itself. This waits for no other
/// call, because many others may wait for what stands under the lease.
pub(crate) async fn revoke(members: &Members, id: i64, time_to_live: Duration) {
    let revoked = async {
        let mut delay = Duration::from_millis(50);
        let revoke = async |mut client: Client| client.lease_revoke(id).await;
        while let Err(Failure::Unknown(_)) = call(members, Turn::Passes, revoke).await {
            sleep(about(delay)).await;
            // The pauses grow, because there may be many leases, and a time to live may be long.
            delay = (2 * delay).min(Duration::from_secs(1));
        }
    };
    let _ = time::timeout(time_to_live, revoked).await;
}
