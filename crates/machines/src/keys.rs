//! The layout of keys in a store.
//!
//! ```text
//! {namespace}/format                                            the number of the format
//! {namespace}/6/{bucket}/l/{name}/{h|q}/{x|s}/{owner}-{slot}    a lock (h), or a request that waits (q)
//! {namespace}/6/{bucket}/l/{name}/h/x/o-{owner}                 the connection that owns the name
//! {namespace}/6/@mailbox/{owner}/{key}                          this owner is asked for the name of its key
//! {namespace}/6/@mailbox/{owner}/{key}/{request}                this request has stolen, by this lock
//! ```
//!
//! The 6 is the number of the format of keys and values. Programs with different formats do not understand
//! each other, so each store first looks for other formats
//! ([`KeyStore::connect`](crate::key_store::KeyStore::connect)).
//!
//! Namespace, bucket and name are any bytes. Each is spelled without a `/`, and different ones are
//! spelled differently, so that no key of one is below the prefix of another. Locks and waiting
//! requests have different keys, because the fencing token is the revision of the grant: the grant
//! creates the lock's key, so the token is the key's create revision. When the agent describes
//! itself anew, the value of the key is rewritten, but this revision stays the same. Exclusive and
//! shared locks have different prefixes, so that a transaction can check for either.
//!
//! The key of a name's owner (see `table.rs`) stands among the exclusive locks. So it
//! keeps away the same requests as an exclusive lock, and a request that steals removes it as well.
//!
//! The keys below `@mailbox/{owner}/` are the *mailbox* of a connection. They stand under its lease. An owner
//! that is not told by its watches reads there what others want. A thief notes there that it has stolen,
//! because the next thief removes its lock. No bucket is spelled `@mailbox`.

use std::sync::Arc;

use navlock_core::{Mode, ResourceName};
use serde::{Deserialize, Serialize};

pub use crate::names::{NameKey, RequestKey};
use crate::{data::prefix_end, names::spelling::spell};

/// The number of the format.
pub const FORMAT: &str = "6";

/// The beginning of the last part of an owner key. It sorts after all numbers.
const OWNED: &str = "o-";

/// The keys of one bucket.
#[derive(Clone, Debug)]
pub struct BucketKeys(Arc<[u8]>);

/// The keys of one name.
#[derive(Clone, Debug)]
pub(crate) struct NameKeys(Vec<u8>);

/// The kind of a key below a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// A lock.
    Held,
    /// A request that waits.
    Queued,
    /// The key is neither a lock nor a request. It says that this connection owns the name. Its
    /// slot means nothing.
    Owned,
}

/// The kind that a key has for transactions, because of the range that it is in, even if another
/// program has written the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) name: NameKey,
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
}

/// The parts of a key below a bucket's locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKey {
    /// The name.
    pub name: NameKey,
    /// The kind.
    pub phase: Phase,
    /// The mode of the lock or request.
    pub mode: Mode,
    /// The request.
    pub request: RequestKey,
}

impl BucketKeys {
    /// The keys of this bucket.
    pub fn new(namespace: &str, bucket: &str) -> Self {
        Self([&*Self::present(namespace), &*spell(bucket.as_bytes()), b"/"].concat().into())
    }

    /// The prefix of the keys that have the present format.
    fn present(namespace: &str) -> Vec<u8> {
        [&*Self::root(namespace), FORMAT.as_bytes(), b"/"].concat()
    }

    /// The prefix of all keys of a namespace.
    pub fn root(namespace: &str) -> Vec<u8> {
        let mut root = spell(namespace.as_bytes());
        root.push(b'/');
        root
    }

    /// A prefix that no key has, to ask a store for its revision alone.
    pub fn nothing(namespace: &str) -> Vec<u8> {
        [&*Self::root(namespace), b"?"].concat()
    }

    /// The key whose value is the number of the format. It has no lease.
    pub fn format_key(namespace: &str) -> Vec<u8> {
        [&*Self::root(namespace), b"format"].concat()
    }

    /// The prefix of the mailbox of this connection.
    pub(crate) fn mailbox(namespace: &str, owner: u128) -> Vec<u8> {
        [&*Self::present(namespace), format!("@mailbox/{owner:032x}/").as_bytes()].concat()
    }

    /// The key in the mailbox of an owner that says that the owner is asked for the name of this owner
    /// key.
    pub(crate) fn asked(owned: &[u8]) -> Vec<u8> {
        let last = owned.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        Self::in_mailbox(last.strip_prefix(OWNED.as_bytes()).unwrap_or_default(), owned)
    }

    /// The key in the mailbox of a thief that says that its request with this number has stolen, and has
    /// put this lock.
    pub(crate) fn stolen(lock: &[u8], thief: RequestKey, number: u64) -> Vec<u8> {
        let owner = format!("{:032x}", thief.owner);
        [&*Self::in_mailbox(owner.as_bytes(), lock), format!("/{number:x}").as_bytes()].concat()
    }

    fn in_mailbox(owner: &[u8], key: &[u8]) -> Vec<u8> {
        let end_of_root = key.iter().position(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let root = &key[..end_of_root];
        [root, FORMAT.as_bytes(), b"/@mailbox/", owner, b"/", key].concat()
    }

    /// Whether this key is in the mailbox of some owner.
    pub(crate) fn is_in_mailbox(namespace: &str, key: &[u8]) -> bool {
        key.strip_prefix(&*Self::present(namespace))
            .is_some_and(|rest| rest.starts_with(b"@mailbox/"))
    }

    /// The ranges of keys of other formats, which have another number.
    pub fn other_formats(namespace: &str) -> [(Vec<u8>, Vec<u8>); 2] {
        let root = Self::root(namespace);
        let of = |rest: &[u8]| [&*root, rest].concat();
        // What is between the two begins with the number of this format and a slash.
        let behind = [FORMAT, "0"].concat();
        [(of(b"0"), Self::present(namespace)), (of(behind.as_bytes()), of(b":"))]
    }

    /// The format of a key: the number after the namespace.
    pub fn format(namespace: &str, key: &[u8]) -> Option<u64> {
        let rest = key.strip_prefix(&*Self::root(namespace))?;
        let number = &rest[..rest.iter().position(|&byte| byte == b'/')?];
        // The number of a format begins with such a digit.
        number.first().filter(|first| (b'1'..=b'9').contains(first))?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// Whether a key looks like an owner key.
    pub(crate) fn may_say_whose(key: &[u8]) -> bool {
        key.rsplit(|&byte| byte == b'/')
            .next()
            .is_some_and(|last| last.starts_with(OWNED.as_bytes()))
    }

    /// The bucket of a key, as it is spelled, with its keys; `None` if the key is in no bucket.
    pub(crate) fn around(namespace: &str, key: &[u8]) -> Option<(Vec<u8>, Self)> {
        let prefix = Self::present(namespace);
        let rest = key.strip_prefix(&*prefix)?;
        let bucket = &rest[..rest.iter().position(|&byte| byte == b'/')?];
        Some((bucket.to_vec(), Self([&*prefix, bucket, b"/"].concat().into())))
    }

    /// The prefix of all keys of the bucket.
    pub fn all(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// A key that means nothing, to measure how long it takes to write one.
    pub fn probe(&self, lease: i64) -> Vec<u8> {
        [&*self.0, b"p/", format!("{lease:016x}").as_bytes()].concat()
    }

    pub(crate) fn is_probe(&self, key: &[u8]) -> bool {
        key.strip_prefix(&*self.0).is_some_and(|rest| rest.starts_with(b"p/"))
    }

    pub(crate) fn name(&self, name: &NameKey) -> NameKeys {
        NameKeys([&*self.0, b"l/", name.spelling(), b"/"].concat())
    }

    /// The prefix of all keys of a name.
    pub(crate) fn of_name(&self, name: &ResourceName) -> Vec<u8> {
        self.name(&NameKey::new(name)).0
    }

    /// The kind that a key has for transactions, even if another program has written the key.
    /// `None` if transactions do not look at it.
    pub(crate) fn range(&self, key: &[u8]) -> Option<Range> {
        let rest = key.strip_prefix(&*self.0)?.strip_prefix(b"l/")?;
        let mut parts = rest.splitn(4, |&byte| byte == b'/');
        let (name, phase) = (NameKey::from_spelling(parts.next()?), parts.next()?);
        // No transaction looks at names that are spelled in another way.
        if !name.is_hash() && name.name().is_none_or(|plain| NameKey::new(&plain) != name) {
            return None;
        }
        let phase = match phase {
            b"h" => Phase::Held,
            b"q" => Phase::Queued,
            _ => return None,
        };
        let mode = parts.next()?;
        // Any key outside the range of exclusive locks counts as shared: it keeps away exclusive
        // requests only.
        let is_exclusive = mode == b"x" && parts.next().is_some();
        let mode = if is_exclusive { Mode::Exclusive } else { Mode::Shared };
        Some(Range { name, phase, mode })
    }

    /// Parses a key; `None` if navlock writes no such key.
    pub(crate) fn parse(&self, key: &[u8]) -> Option<LockKey> {
        let rest = key.strip_prefix(&*self.0)?.strip_prefix(b"l/")?;
        let mut parts = rest.split(|&byte| byte == b'/');
        let (name, phase, mode) = (parts.next()?, parts.next()?, parts.next()?);
        let (request, None) = (parts.next()?, parts.next()) else {
            return None;
        };
        let phase = match phase {
            b"h" => Phase::Held,
            b"q" => Phase::Queued,
            _ => return None,
        };
        let mode = match mode {
            b"x" => Mode::Exclusive,
            b"s" => Mode::Shared,
            _ => return None,
        };
        let request = std::str::from_utf8(request).ok()?;
        let (phase, request) = match (phase, mode, request.strip_prefix(OWNED)) {
            (Phase::Held, Mode::Exclusive, Some(owner)) => {
                (Phase::Owned, RequestKey { owner: read_owner(owner)?, slot: 0 })
            }
            _ => (phase, read_request(request)?),
        };
        Some(LockKey { name: NameKey::from_spelling(name), phase, mode, request })
    }
}

impl NameKeys {
    fn with(&self, rest: &[u8]) -> Vec<u8> {
        [&*self.0, rest].concat()
    }

    /// The prefix of all keys of the name.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.0.clone()
    }

    /// The prefix of the held locks.
    pub(crate) fn held(&self) -> Vec<u8> {
        self.with(b"h/")
    }

    /// The prefix of the held exclusive locks.
    pub(crate) fn held_exclusive(&self) -> Vec<u8> {
        self.with(b"h/x/")
    }

    /// The end of the range of the held locks: the next byte after `/` is `0`.
    pub(crate) fn end_of_held(&self) -> Vec<u8> {
        self.with(b"h0")
    }

    /// The prefix of the waiting requests.
    pub(crate) fn queue(&self) -> Vec<u8> {
        self.with(b"q/")
    }

    /// The owner key of this connection.
    pub(crate) fn owned(&self, owner: u128) -> Vec<u8> {
        self.with(format!("h/x/{OWNED}{owner:032x}").as_bytes())
    }

    /// The range of all owner keys.
    pub(crate) fn all_owned(&self) -> (Vec<u8>, Vec<u8>) {
        let prefix = self.with(format!("h/x/{OWNED}").as_bytes());
        let end = prefix_end(&prefix);
        (prefix, end)
    }

    /// The ranges of the waiting requests of this connection, in their order.
    pub(crate) fn queue_of(&self, owner: u128) -> [(Vec<u8>, Vec<u8>); 2] {
        ['s', 'x'].map(|mode| {
            let prefix = self.with(format!("q/{mode}/{owner:032x}-").as_bytes());
            let end = prefix_end(&prefix);
            (prefix, end)
        })
    }

    /// The ranges of the waiting requests of other connections.
    pub(crate) fn queue_of_others(&self, owner: u128) -> [(Vec<u8>, Vec<u8>); 3] {
        let [(first, after_first), (second, after_second)] = self.queue_of(owner);
        let queue = self.queue();
        let end = prefix_end(&queue);
        [(queue, first), (after_first, second), (after_second, end)]
    }

    pub(crate) fn request(&self, phase: Phase, mode: Mode, request: RequestKey) -> Vec<u8> {
        let RequestKey { owner, slot } = request;
        let phase = match phase {
            Phase::Held => 'h',
            Phase::Queued => 'q',
            Phase::Owned => return self.owned(owner),
        };
        let mode = match mode {
            Mode::Exclusive => 'x',
            Mode::Shared => 's',
        };
        self.with(format!("{phase}/{mode}/{owner:032x}-{slot:08x}").as_bytes())
    }
}

/// The request that the last part of a key identifies.
fn read_request(text: &str) -> Option<RequestKey> {
    let (owner, slot) = text.split_once('-')?;
    // A number has only one valid spelling. Otherwise two keys could belong to one request.
    let is_long = slot.len() > 8 && !slot.starts_with('0');
    if !(slot.len() == 8 || is_long) || text.contains('+') {
        return None;
    }
    Some(RequestKey { owner: read_owner(owner)?, slot: u64::from_str_radix(slot, 16).ok()? })
}

fn read_owner(text: &str) -> Option<u128> {
    let is_plain = text.len() == 32 && !text.contains('+');
    u128::from_str_radix(text, 16).ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests;
