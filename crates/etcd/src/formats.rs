//! The check that all programs which use one etcd write the same format.
//!
//! The number of the format stands in each key. A program with another format would see none of our
//! locks, and grant names that we hold. So a program writes into a separate key, for good, which format
//! the namespace has, before it gets its first lease, without which nothing is locked. Programs that
//! write another format refuse to begin in this namespace, even if nothing is held.
//!
//! Builds from before that key neither write nor read it. Others notice such builds while they have
//! keys in the namespace, but they notice nobody.

use navlock_core::{Error, Unreachable};

use crate::{
    STORE,
    call_failure::Failure,
    calls,
    data::{Check, Step, Transaction},
    keys::{BucketKeys, FORMAT},
    load::Turn,
    members::Members,
    options::EtcdOptions,
};

/// How often etcd is asked.
const TRIES: usize = 3;

/// Checks that nobody uses another format in this namespace. Nothing is written.
///
/// # Errors
///
/// [`Error::Refused`] if somebody uses another format, [`Error::Unreachable`] if etcd does not
/// answer.
pub(crate) async fn look(members: &Members, options: &EtcdOptions) -> Result<(), Error> {
    for range in BucketKeys::other_formats(&options.keeper.namespace) {
        if let Some((format, key)) =
            first(members, options, range).await.map_err(|failure| failure.error(STORE))?
        {
            let then = "'navlock evict --key KEY' removes a key that has no lease";
            return Err(Error::refused(refusal(&format.to_string(), &key, then)));
        }
    }
    let said = tried(|| said(members, options)).await.map_err(|failure| failure.error(STORE))?;
    let other = said.and_then(|said| judge(options, &said));
    other.map_or(Ok(()), |why| Err(Error::refused(why)))
}

/// Writes the format of the namespace, unless one is written already, and checks it. This is done
/// before each lease: the format may have been lost with etcd's data, and others may have begun since. Like
/// the call that asks for the lease, it waits for no other call.
///
/// # Errors
///
/// The error of the lease: nobody can reach the locks of this etcd from here any more.
pub(crate) async fn claim(members: &Members, options: &EtcdOptions) -> Result<(), Failure> {
    let mut found = said(members, options).await?;
    if found.is_none() {
        let key = BucketKeys::format_key(&options.keeper.namespace);
        let put = Step::Put { key: key.clone(), value: FORMAT.into(), lease: 0 };
        let (when, then) = (vec![Check::Absent(key)], vec![put]);
        let first = Transaction { when, then, or_else: Vec::new() };
        calls::transact(members, first, Turn::Passes).await?;
        found = said(members, options).await?;
    }
    let other = found.and_then(|said| judge(options, &said));
    other.map_or(Ok(()), |why| Err(Failure::Refused(Unreachable::other(why).into())))
}

/// The format that is written for the namespace, if one is.
async fn said(members: &Members, options: &EtcdOptions) -> Result<Option<Vec<u8>>, Failure> {
    let key = BucketKeys::format_key(&options.keeper.namespace);
    let there = calls::get(members, key, Turn::Passes).await?;
    Ok(there.map(|there| there.value))
}

/// Why this format, which is written for the namespace, keeps us away. `None` if it is ours.
fn judge(options: &EtcdOptions, said: &[u8]) -> Option<String> {
    if said == FORMAT.as_bytes() {
        return None;
    }
    let key = BucketKeys::format_key(&options.keeper.namespace);
    let then = "then remove that key with 'navlock evict --key KEY'";
    Some(refusal(&said.escape_ascii().to_string(), &key, then))
}

fn refusal(format: &str, key: &[u8], then: &str) -> String {
    let key = key.escape_ascii();
    format!(
        "another release of navlock uses this etcd in format {format} (key {key}), and this one \
         writes format {FORMAT}: neither would see the other's locks; give another namespace, or end \
         all that uses the other format ({then})"
    )
}

/// The first key in a range that has a format, and its format. There may be other keys before it.
async fn first(
    members: &Members,
    options: &EtcdOptions,
    (mut start, end): (Vec<u8>, Vec<u8>),
) -> Result<Option<(u64, Vec<u8>)>, Failure> {
    loop {
        let range = || calls::some_keys(members, (start.clone(), end.clone()));
        let keys = tried(range).await?;
        let Some(last) = keys.last() else { return Ok(None) };
        // The next possible key.
        start = [last, &[0][..]].concat();
        let of = |key: Vec<u8>| Some((BucketKeys::format(&options.keeper.namespace, &key)?, key));
        if let Some(found) = keys.into_iter().find_map(of) {
            return Ok(Some(found));
        }
    }
}

/// Asks up to a few times, if there is no answer.
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
