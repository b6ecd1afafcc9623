//! That all who meet in etcd write the same format.
//!
//! The number of the format stands in each key. Who used another one would see no lock of ours, and
//! grant what we hold. So the first who connects says in a key of its own which format the namespace
//! has, for good, and nobody begins there who writes another one, whether anything is held or not.
//!
//! Builds from before that key neither write it nor look at it: they are noticed while they have
//! something there, and notice nobody.

use navlock_core::Error;

use crate::{
    LOGS, calls,
    data::{Check, Step, Transaction},
    failure::Failure,
    keys::{BucketKeys, FORMAT},
    members::Members,
    options::EtcdOptions,
};

/// How often it is asked.
const TRIES: usize = 3;

/// Sees that nobody uses another format in this namespace, and says which one is used.
///
/// # Errors
///
/// [`Error::Refused`] if somebody uses another, [`Error::Unreachable`] if etcd does not answer.
pub(crate) async fn check(members: &Members, options: &EtcdOptions) -> Result<(), Error> {
    for range in BucketKeys::other_formats(&options.namespace) {
        if let Some((format, key)) = first(members, options, range).await.map_err(Failure::error)? {
            let then = "what has no lease is removed by 'navlock evict --key KEY'";
            return Err(refused(&format.to_string(), &key, then));
        }
    }
    let key = BucketKeys::format_key(&options.namespace);
    let patience = options.call();
    let there = tried(|| calls::get(members, key.clone(), patience)).await;
    let said = match there.map_err(Failure::error)? {
        Some(said) => said.value,
        None => match tried(|| calls::put_first(members, &key, FORMAT, patience)).await {
            // A user of etcd's who may not write there can look, and takes no locks.
            Err(Failure::Refused(error)) => {
                tracing::warn!(target: LOGS, %error, "the number of the format cannot be written");
                return Ok(());
            }
            said => said.map_err(Failure::error)?,
        },
    };
    if said == FORMAT.as_bytes() {
        return Ok(());
    }
    let then = "then remove that key with 'navlock evict --key KEY'";
    Err(refused(&said.escape_ascii().to_string(), &key, then))
}

/// Says it again, to an etcd that has lost its data.
pub(crate) fn say_again(options: &EtcdOptions) -> Transaction {
    let (key, value) = (BucketKeys::format_key(&options.namespace), FORMAT.into());
    let when = vec![Check::Absent(key.clone())];
    Transaction { when, then: vec![Step::Put { key, value, lease: 0 }], or_else: Vec::new() }
}

fn refused(format: &str, key: &[u8], then: &str) -> Error {
    let key = key.escape_ascii();
    Error::Refused(format!(
        "another release of navlock uses this etcd in format {format} (key {key}), and this one \
         writes format {FORMAT}: neither would see the other's locks; give another namespace, or end \
         all that uses the other format ({then})"
    ))
}

/// The first key in a range that is of some format, and of which. Others may stand before it.
async fn first(
    members: &Members,
    options: &EtcdOptions,
    (mut start, end): (Vec<u8>, Vec<u8>),
) -> Result<Option<(u64, Vec<u8>)>, Failure> {
    loop {
        let range = || calls::some_keys(members, (start.clone(), end.clone()), options.call());
        let keys = tried(range).await?;
        let Some(last) = keys.last() else { return Ok(None) };
        // The next key there can be.
        start = [last, &[0][..]].concat();
        let of = |key: Vec<u8>| Some((BucketKeys::format(&options.namespace, &key)?, key));
        if let Some(found) = keys.into_iter().find_map(of) {
            return Ok(Some(found));
        }
    }
}

/// Asks a few times, if it is not answered.
async fn tried<T, F: Future<Output = Result<T, Failure>>>(
    ask: impl Fn() -> F,
) -> Result<T, Failure> {
    let mut tries = 1;
    loop {
        match ask().await {
            Err(Failure::Unknown(_)) if tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}
