//! What a list of a bucket says: one revision, so one moment.

use std::{collections::HashMap, sync::Arc, time::Duration};

use navlock_core::{AgentInfo, Inspected, Inspection, LockInfo};
use navlock_engine::FencingToken;

use crate::{
    clock::wall_millis,
    data::KeyValue,
    keys::{BucketKeys, Phase, RequestKey},
    values::{Value, decode_info},
};

/// A lock or request, with what it is ordered by.
type Found = ((i64, u64, RequestKey), Inspected);

/// What is held and what is pending.
pub(crate) fn inspection(keys: &BucketKeys, listed: &[KeyValue]) -> Inspection {
    let agents: HashMap<i64, Arc<AgentInfo>> = listed
        .iter()
        .filter(|kv| keys.is_agent(&kv.key))
        .filter_map(|kv| Some((kv.lease, Arc::new(decode_info(&kv.value)?))))
        .collect();
    let (mut held, mut pending): (Vec<Found>, Vec<Found>) = Default::default();
    for kv in listed {
        let Some(key) = keys.parse(&kv.key) else { continue };
        let Some(value) = Value::decode(&kv.value) else { continue };
        let Some(name) = value.name.or_else(|| key.name.name()) else { continue };
        let mut inspected = Inspected::new(LockInfo::new(name, key.mode, value.client_id));
        inspected.agent = agents.get(&kv.lease).cloned();
        let age = wall_millis().saturating_sub(value.since);
        inspected.age = Some(Duration::from_millis(age));
        let made = (kv.made, value.place, key.request);
        match key.phase {
            Phase::Held => {
                inspected.fencing_token = Some(token(kv.made));
                held.push((made, inspected));
            }
            Phase::Queued => pending.push((made, inspected)),
        }
    }
    Inspection::new(in_order(held), in_order(pending))
}

fn in_order(mut found: Vec<Found>) -> Vec<Inspected> {
    found.sort_by_key(|&(made, _)| made);
    found.into_iter().map(|(_, inspected)| inspected).collect()
}

/// The fencing token of a lock: the revision of its grant.
pub(crate) fn token(revision: i64) -> FencingToken {
    FencingToken::new(u64::try_from(revision).unwrap_or_default())
}
