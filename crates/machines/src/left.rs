//! Removes keys of others: the keys that agents have left behind because their connection ended
//! before them, and the locks that a person takes away from their holders.

use std::collections::{BTreeMap, HashSet};

use futures_util::{StreamExt, stream};
use navlock_core::{ClientId, FencingToken, ResourceName, host::Eviction};
use tokio::time;

use crate::{
    call_failure::Failure,
    data::{Check, KeyValue, Step, StepResult, Transaction, removal},
    key_store::{KeeperOptions, KeyStore},
    keys::{BucketKeys, NameKey, Phase},
    lease::{LeaseName, Share},
    load::Turn,
    strays,
    tokens::Grant,
    transactions::MOST,
    values::Value,
};

/// How many leases are handled at a time, and how many keys of each.
const AT_ONCE: usize = 32;

/// Removes the locks and requests of these agents, and the keys by which their connections own names, except
/// for keys that begin with one of `spared`. Returns whether all of these keys are gone.
pub(crate) async fn revoke(
    store: &impl KeyStore,
    options: &KeeperOptions,
    left: Vec<Share>,
    spared: &HashSet<Vec<u8>>,
) -> bool {
    let mut leases = BTreeMap::<LeaseName, HashSet<ClientId>>::new();
    for Share { lease, client_id } in left {
        leases.entry(lease).or_default().insert(client_id);
    }
    let over = stream::iter(leases).map(|(lease, whose)| async move {
        under(store, options, lease, whose, spared).await.is_ok_and(|is_over| is_over)
    });
    let all = over.buffer_unordered(AT_ONCE).fold(true, async |all, is_over| all && is_over);
    // After that time the leases have ended by themselves.
    time::timeout(options.times.time_to_live, all).await.unwrap_or(false)
}

/// Does this for the keys under one lease. Another cluster may have a lease with the same number; that
/// lease is left alone.
async fn under(
    store: &impl KeyStore,
    options: &KeeperOptions,
    lease: LeaseName,
    whose: HashSet<ClientId>,
    spared: &HashSet<Vec<u8>>,
) -> Result<bool, Failure> {
    let found = store.under(lease.id).await?;
    if found.cluster != lease.cluster {
        return Ok(true);
    }
    let is_ours = |key: &Vec<u8>| BucketKeys::around(&options.namespace, key).is_some();
    let is_spared = |key: &Vec<u8>| spared.iter().any(|begin| key.starts_with(begin));
    let keys = found.keys.into_iter().filter(|key| is_ours(key) && !is_spared(key));
    let found = stream::iter(keys).map(|key| store.get(key, Turn::Waits));
    let found: Vec<_> = found.buffer_unordered(AT_ONCE).collect().await;
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let is_theirs = |kv: &KeyValue| {
        Value::client_id(&kv.value).is_some_and(|client_id| whose.contains(&client_id))
    };
    let theirs: Vec<_> = found.into_iter().flatten().filter(is_theirs).collect();
    let mut is_over = true;
    for some in theirs.chunks(MOST) {
        let done = store.transact(removal(some), Turn::Waits);
        // If a request has become a lock meanwhile, the caller has to look again.
        is_over &= done.await?.succeeded;
    }
    Ok(is_over)
}

/// Removes all locks of the name, if all of them are among those that were seen.
pub(crate) async fn evict(
    store: &impl KeyStore,
    options: &KeeperOptions,
    bucket: &str,
    name: &ResourceName,
    seen: Vec<(ClientId, FencingToken)>,
) -> Result<Eviction, Failure> {
    let seen: HashSet<_> = seen.into_iter().collect();
    let keys = BucketKeys::new(&options.namespace, bucket);
    let of_name = keys.name(&NameKey::new(name));
    let (start, end) = (of_name.held(), of_name.end_of_held());
    let listed = store.list(start.clone(), usize::MAX, 0).await?;
    let is_seen = |kv: &KeyValue| {
        let client_id = strays::id(&keys, kv).map(|id| id.client_id);
        // This is the token that people are shown: a key that cannot be read has no mark.
        let is_lock = keys.parse(&kv.key).is_some_and(|key| key.phase == Phase::Held)
            && strays::of_bucket(&keys, kv).is_none();
        let mark = if is_lock { Value::mark(&kv.value) } else { 0 };
        let token = Grant::marked(kv.made, mark).token;
        client_id.is_some_and(|client_id| seen.contains(&(client_id, token)))
    };
    if listed.found.is_empty() {
        return Ok(Eviction::Free);
    }
    if !listed.found.iter().all(is_seen) {
        return Ok(Eviction::HeldByOthers);
    }
    // The check finds locks that were granted since the list, because their keys are newer. A
    // holder from the list may release its lock meanwhile.
    let removal = Transaction {
        when: vec![Check::NoneAfter(start.clone(), end.clone(), listed.revision)],
        then: vec![Step::DeleteRange(start, end)],
        or_else: Vec::new(),
    };
    let answer = store.transact(removal, Turn::Waits).await?;
    if !answer.succeeded {
        return Ok(Eviction::HeldByOthers);
    }
    let gone = answer.results.iter().map(|result| match result {
        StepResult::Deleted(keys) => keys.len() as u64,
        _ => 0,
    });
    Ok(match gone.sum() {
        0 => Eviction::Free,
        count => Eviction::From(count),
    })
}
