//! The check that all programs which use one etcd write the same format.
//!
//! The number of the format stands in each key. A program with another format would see none of our
//! locks, and grant names that we hold. So the first program that connects writes into a separate
//! key which format the namespace has, for good. Programs that write another format refuse to begin
//! in this namespace, even if nothing is held.
//!
//! Builds from before that key neither write nor read it. Others notice such builds while they have
//! keys in the namespace, but they notice nobody.

use navlock_core::Error;

use crate::{
    LOGS, calls,
    failure::Failure,
    keys::{BucketKeys, FORMAT},
    members::Members,
    options::EtcdOptions,
};

/// How often etcd is asked.
const TRIES: usize = 3;

/// Checks that nobody uses another format in this namespace, and writes which format is used.
///
/// # Errors
///
/// [`Error::Refused`] if somebody uses another format, [`Error::Unreachable`] if etcd does not
/// answer.
pub(crate) async fn check(members: &Members, options: &EtcdOptions) -> Result<(), Error> {
    if look(members, options).await? {
        return Ok(());
    }
    match tried(|| say(members, options)).await {
        // A program that only looks may go on if it has no permission to write, or if etcd is full.
        // The format is written before the program takes a lock.
        Err(Failure::Refused(error)) => {
            tracing::warn!(target: LOGS, %error, "the number of the format cannot be written");
            Ok(())
        }
        said => judge(options, &said.map_err(Failure::error)?),
    }
}

/// Does the same check, without writing anything. Returns whether the format of the namespace had
/// been written before.
///
/// # Errors
///
/// The errors of [`check`].
pub(crate) async fn look(members: &Members, options: &EtcdOptions) -> Result<bool, Error> {
    for range in BucketKeys::other_formats(&options.namespace) {
        if let Some((format, key)) = first(members, options, range).await.map_err(Failure::error)? {
            let then = "'navlock evict --key KEY' removes a key that has no lease";
            return Err(refused(&format.to_string(), &key, then));
        }
    }
    let said = tried(|| said(members, options)).await.map_err(Failure::error)?;
    said.as_ref().map_or(Ok(()), |said| judge(options, said))?;
    Ok(said.is_some())
}

/// Does the same check before each lease, because nothing is locked without a lease. The format may
/// not have been written before, or may have been lost with etcd's data, and others may have begun
/// since.
///
/// # Errors
///
/// The error of the lease.
pub(crate) async fn check_again(members: &Members, options: &EtcdOptions) -> Result<(), Failure> {
    let said = match said(members, options).await? {
        Some(said) => said,
        None => say(members, options).await?,
    };
    judge(options, &said).map_err(Failure::Refused)
}

/// The format that is written for the namespace, if one is.
async fn said(members: &Members, options: &EtcdOptions) -> Result<Option<Vec<u8>>, Failure> {
    let key = BucketKeys::format_key(&options.namespace);
    let there = calls::get(members, key, options.call()).await?;
    Ok(there.map(|there| there.value))
}

/// Writes that the namespace has our format, unless a format is written already. Returns the format
/// that is written afterwards.
async fn say(members: &Members, options: &EtcdOptions) -> Result<Vec<u8>, Failure> {
    let key = BucketKeys::format_key(&options.namespace);
    calls::put_first(members, &key, FORMAT, options.call()).await
}

fn judge(options: &EtcdOptions, said: &[u8]) -> Result<(), Error> {
    if said == FORMAT.as_bytes() {
        return Ok(());
    }
    let key = BucketKeys::format_key(&options.namespace);
    let then = "then remove that key with 'navlock evict --key KEY'";
    Err(refused(&said.escape_ascii().to_string(), &key, then))
}

fn refused(format: &str, key: &[u8], then: &str) -> Error {
    let key = key.escape_ascii();
    Error::refused(format!(
        "another release of navlock uses this etcd in format {format} (key {key}), and this one \
         writes format {FORMAT}: neither would see the other's locks; give another namespace, or end \
         all that uses the other format ({then})"
    ))
}

/// The first key in a range that has a format, and its format. There may be other keys before it.
async fn first(
    members: &Members,
    options: &EtcdOptions,
    (mut start, end): (Vec<u8>, Vec<u8>),
) -> Result<Option<(u64, Vec<u8>)>, Failure> {
    loop {
        let range = || calls::some_keys(members, (start.clone(), end.clone()), options.call());
        let keys = tried(range).await?;
        let Some(last) = keys.last() else { return Ok(None) };
        // The next possible key.
        start = [last, &[0][..]].concat();
        let of = |key: Vec<u8>| Some((BucketKeys::format(&options.namespace, &key)?, key));
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
