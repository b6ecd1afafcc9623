//! Stray keys: keys below our prefix that are no lock and no request, because another program has
//! put them there or because they cannot be read.
//!
//! A transaction can only check whether a range is empty. So a stray key in the range of a name
//! blocks everybody who requests that name. No keeper removes stray keys. A stray key goes by
//! itself only if it has a lease, and the lease ends. So people are shown stray keys, and can evict
//! them.

use std::fmt;

use navlock_core::{ClientId, Mode, ResourceName, look::LockId};
use sha2::{Digest, Sha256};

use crate::{
    data::KeyValue,
    keys::{BucketKeys, Phase, Range},
    values::Value,
};

/// A key that is no lock and no request, and may block requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stray {
    /// The key.
    pub key: Vec<u8>,
    /// The requests that the key blocks, if any.
    pub blocks: Option<Blocked>,
    /// The lease with which the key goes; `None` if it does not go by itself.
    pub lease: Option<i64>,
    /// The revision of the store that created the key.
    pub since: i64,
    /// Why the key is none of navlock's, for people.
    pub why: &'static str,
}

/// The requests that a stray key blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// The bucket, as it is spelled in keys.
    pub bucket: String,
    /// The name.
    pub name: ResourceName,
    /// Whether navlock counts the key as a held lock. If not, it counts as a request that waits.
    pub is_held: bool,
    /// The mode of that lock or request.
    pub mode: Mode,
}

/// The key as a stray, if it is none of navlock's keys in the namespace.
pub(crate) fn of_namespace(namespace: &str, kv: &KeyValue) -> Option<Stray> {
    let of_no_bucket = |why| {
        let lease = Some(kv.lease).filter(|&lease| lease != 0);
        Some(Stray { key: kv.key.clone(), blocks: None, lease, since: kv.made, why })
    };
    if kv.key == BucketKeys::format_key(namespace) || BucketKeys::is_in_mailbox(namespace, &kv.key)
    {
        return None;
    }
    let Some((bucket, keys)) = BucketKeys::around(namespace, &kv.key) else {
        return of_no_bucket("its layout is not that of this release");
    };
    if keys.is_probe(&kv.key) {
        return None;
    }
    let stray = of_bucket(&keys, kv)?;
    let blocks = keys.range(&kv.key).map(|Range { name, phase, mode }| Blocked {
        bucket: String::from_utf8_lossy(&bucket).into_owned(),
        name: name.shown(),
        is_held: phase == Phase::Held,
        mode,
    });
    Some(Stray { blocks, ..stray })
}

/// The stray key, if a key of a bucket is one, without what it blocks.
pub(crate) fn of_bucket(keys: &BucketKeys, kv: &KeyValue) -> Option<Stray> {
    let why = if keys.parse(&kv.key).is_none() {
        "navlock writes no such key"
    } else if kv.lease == 0 {
        "it has no lease, so it does not end with anybody"
    } else if Value::decode(&kv.value).is_none() {
        "its value cannot be read"
    } else {
        return None;
    };
    let lease = Some(kv.lease).filter(|&lease| lease != 0);
    Some(Stray { key: kv.key.clone(), blocks: None, lease, since: kv.made, why })
}

/// The id under which a key is shown.
pub(crate) fn id(keys: &BucketKeys, kv: &KeyValue) -> Option<LockId> {
    keys.range(&kv.key)?;
    let known = keys.parse(&kv.key).and_then(|_| Value::decode(&kv.value));
    let by_key = || LockId { client_id: client_id(&kv.key), serial: 0 };
    let by_value = |Value { client_id, serial, .. }| LockId { client_id, serial };
    Some(known.map_or_else(by_key, by_value))
}

/// A client id for a key that contains none. It is made from the key, so each look shows the same.
fn client_id(key: &[u8]) -> ClientId {
    let hash: [u8; 32] = Sha256::digest(key).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    ClientId::from_bytes(bytes)
}

impl Stray {
    /// The key as text: bytes that cannot be shown are escaped.
    pub fn spelled(&self) -> String {
        Shown(&self.key).to_string()
    }
}

/// What is known of the stray key, for people.
impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, lease, since, .. } = self;
        write!(f, "key {} is no lock: {why}", Shown(&self.key))?;
        match lease {
            Some(lease) => write!(f, "; under lease {lease:x}, since revision {since}"),
            None => write!(f, "; since revision {since}"),
        }
    }
}

/// Shows a key to people. Bytes that cannot be shown are escaped.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}
