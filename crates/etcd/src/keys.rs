//! What stands where in etcd.
//!
//! ```text
//! {namespace}/format                                            the number of the format
//! {namespace}/clusters                                          the list of clusters that it is in, if it is
//! {namespace}/clusters/{lease}                                  who uses it
//! {namespace}/3/{bucket}/l/{name}/{h|q}/{x|s}/{owner}-{slot}    a lock, or a request that waits
//! {namespace}/3/{bucket}/l/{name}/h/x/o-{owner}                 whose machine's the name is
//! ```
//!
//! The 3 is the number of the format, of keys and of values: who uses another one is not understood,
//! and looks for that before anything else (see [`formats`](crate::formats)).
//!
//! Namespace, bucket and name are any bytes; each is spelled without a `/`, and no two alike, so
//! that no key of one is below the prefix of another. Held and queued stand apart because the
//! fencing token is the revision of the grant: a lock's key is made by the grant. That is its create
//! revision, and stays so when its agent says more of itself, which is written into the value of the
//! same key. Within them, exclusive and shared stand apart so that a transaction can ask for either.
//!
//! Who owns a name (see [`owned`](crate::table::owned)) stands among those who hold it exclusively, so that it
//! keeps away whom such a lock keeps away, and goes where that goes: to whoever steals.

mod spelling;

use std::sync::Arc;

use navlock_core::{Mode, ResourceName, host::NameRef};

use self::spelling::{LONGEST, read, spell};
use crate::data::end_of_prefix;

/// The number of the format.
pub(crate) const FORMAT: &str = "3";

/// With this the last part of a key begins which says whose a name is. It comes after all numbers.
const OWNED: &str = "o-";

/// The keys of one bucket.
#[derive(Clone, Debug)]
pub(crate) struct BucketKeys(Arc<[u8]>);

/// How a name is spelled in keys; what a name is known by in this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NameKey(Arc<[u8]>);

/// The keys of one name.
#[derive(Clone, Debug)]
pub(crate) struct NameKeys(Vec<u8>);

/// What a request is called in etcd, while it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestKey {
    /// The connection that made it: a random number.
    pub(crate) owner: u128,
    /// See [`Slots`](crate::slots::Slots).
    pub(crate) slot: u64,
}

/// Whether it is a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Held,
    Queued,
    /// It is neither, but says that the name is this connection's. Its slot means nothing.
    Owned,
}

/// What a key is taken for, be it ours or not, because of the range that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) name: NameKey,
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
}

/// A key below a bucket's locks, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockKey {
    pub(crate) name: NameKey,
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
    pub(crate) request: RequestKey,
}

impl BucketKeys {
    pub(crate) fn new(namespace: &str, bucket: &str) -> Self {
        let mut prefix = spell(namespace.as_bytes());
        prefix.extend_from_slice(b"/3/");
        prefix.extend_from_slice(&spell(bucket.as_bytes()));
        prefix.push(b'/');
        Self(prefix.into())
    }

    /// The prefix of all that is in a namespace.
    pub(crate) fn root(namespace: &str) -> Vec<u8> {
        let mut root = spell(namespace.as_bytes());
        root.push(b'/');
        root
    }

    /// The prefix of no key, to ask etcd for nothing but its revision.
    pub(crate) fn nothing(namespace: &str) -> Vec<u8> {
        [&*Self::root(namespace), b"?"].concat()
    }

    /// The key behind which the number of the format stands. It has no lease.
    pub(crate) fn format_key(namespace: &str) -> Vec<u8> {
        [&*Self::root(namespace), b"format"].concat()
    }

    /// The key behind which the list of clusters stands. It has no lease.
    pub(crate) fn list_key(namespace: &str) -> Vec<u8> {
        [&*Self::root(namespace), b"clusters"].concat()
    }

    /// The key that says that somebody uses it, under this lease.
    pub(crate) fn user_key(namespace: &str, lease: i64) -> Vec<u8> {
        [&*Self::list_key(namespace), b"/", format!("{lease:016x}").as_bytes()].concat()
    }

    /// The range of those.
    pub(crate) fn users(namespace: &str) -> (Vec<u8>, Vec<u8>) {
        // The next byte after '/'.
        let of = |end: &[u8]| [&*Self::list_key(namespace), end].concat();
        (of(b"/"), of(b"0"))
    }

    /// Whether a key is of the list or of who uses it.
    pub(crate) fn is_of_list(namespace: &str, key: &[u8]) -> bool {
        let rest = key.strip_prefix(&*Self::list_key(namespace));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    /// The ranges in which keys of other formats stand, which begin with another number.
    pub(crate) fn other_formats(namespace: &str) -> [(Vec<u8>, Vec<u8>); 2] {
        let root = Self::root(namespace);
        let of = |rest: &[u8]| [&*root, rest].concat();
        [(of(b"0"), of(b"3/")), (of(b"30"), of(b":"))]
    }

    /// The format of a key: the number behind the namespace.
    pub(crate) fn format(namespace: &str, key: &[u8]) -> Option<u64> {
        let rest = key.strip_prefix(&*Self::root(namespace))?;
        let number = &rest[..rest.iter().position(|&byte| byte == b'/')?];
        // What begins otherwise is no number of ours.
        number.first().filter(|first| (b'1'..=b'9').contains(first))?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// Whether a key looks like one that says whose a name is.
    pub(crate) fn may_say_whose(key: &[u8]) -> bool {
        key.rsplit(|&byte| byte == b'/')
            .next()
            .is_some_and(|last| last.starts_with(OWNED.as_bytes()))
    }

    /// The bucket that a key is in, and how that is spelled; `None` if it is in none.
    pub(crate) fn around(namespace: &str, key: &[u8]) -> Option<(Vec<u8>, Self)> {
        let prefix = [&*Self::root(namespace), b"3/"].concat();
        let rest = key.strip_prefix(&*prefix)?;
        let bucket = &rest[..rest.iter().position(|&byte| byte == b'/')?];
        Some((bucket.to_vec(), Self([&*prefix, bucket, b"/"].concat().into())))
    }

    /// The prefix of all that is in the bucket.
    pub(crate) fn all(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// A key of nobody's, to see how long it takes to write one.
    pub(crate) fn probe(&self, lease: i64) -> Vec<u8> {
        [&*self.0, b"p/", format!("{lease:016x}").as_bytes()].concat()
    }

    pub(crate) fn is_probe(&self, key: &[u8]) -> bool {
        key.strip_prefix(&*self.0).is_some_and(|rest| rest.starts_with(b"p/"))
    }

    pub(crate) fn name(&self, name: &NameKey) -> NameKeys {
        NameKeys([&*self.0, b"l/", &name.0, b"/"].concat())
    }

    /// The prefix of all that is of a name.
    pub(crate) fn of_name(&self, name: &ResourceName) -> Vec<u8> {
        self.name(&NameKey::new(name)).0
    }

    /// What transactions take a key for, be it ours or not; `None` if they do not look at it.
    pub(crate) fn range(&self, key: &[u8]) -> Option<Range> {
        let rest = key.strip_prefix(&*self.0)?.strip_prefix(b"l/")?;
        let mut parts = rest.splitn(4, |&byte| byte == b'/');
        let (name, phase) = (NameKey(parts.next()?.into()), parts.next()?);
        // Of a name that is spelled in another way nobody asks.
        if !name.is_hash() && name.name().is_none_or(|plain| NameKey::new(&plain) != name) {
            return None;
        }
        let phase = match phase {
            b"h" => Phase::Held,
            b"q" => Phase::Queued,
            _ => return None,
        };
        let mode = parts.next()?;
        // What is not among the exclusive ones keeps away only those.
        let is_exclusive = mode == b"x" && parts.next().is_some();
        let mode = if is_exclusive { Mode::Exclusive } else { Mode::Shared };
        Some(Range { name, phase, mode })
    }

    /// Takes a key apart; `None` if it is none of ours.
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
                (Phase::Owned, RequestKey { owner: RequestKey::owner(owner)?, slot: 0 })
            }
            _ => (phase, RequestKey::parse(request)?),
        };
        Some(LockKey { name: NameKey(name.into()), phase, mode, request })
    }
}

impl NameKey {
    pub(crate) fn new(name: &ResourceName) -> Self {
        Self(spell(name.as_bytes()).into())
    }

    /// The same for others.
    pub(crate) fn to_ref(&self) -> NameRef {
        NameRef(Arc::clone(&self.0))
    }

    /// The name that another one calls so; `None` if no name is spelled like that.
    pub(crate) fn of_ref(NameRef(spelled): NameRef) -> Option<Self> {
        let is_spelling = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~-%#".contains(byte);
        let is_name = spelled.len() <= LONGEST && spelled.iter().all(is_spelling);
        is_name.then_some(Self(spelled))
    }

    /// Whether the name is to be kept in the value.
    pub(crate) fn is_hash(&self) -> bool {
        self.0.first() == Some(&b'#')
    }

    /// The name that is spelled so; `None` if it is known by its hash, or is none.
    pub(crate) fn name(&self) -> Option<ResourceName> {
        ResourceName::from_wtf8(&read(&self.0)?).ok()
    }

    /// The name, or else how it is spelled.
    pub(crate) fn shown(&self) -> ResourceName {
        let spelled = || String::from_utf8_lossy(&self.0).trim_start_matches('-').to_owned();
        self.name().unwrap_or_else(|| {
            ResourceName::try_from(&*spelled()).expect("it does not begin with a hyphen")
        })
    }
}

impl NameKeys {
    fn with(&self, rest: &[u8]) -> Vec<u8> {
        [&*self.0, rest].concat()
    }

    /// The prefix of all that is of the name.
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

    /// The prefix of the requests that wait.
    pub(crate) fn queue(&self) -> Vec<u8> {
        self.with(b"q/")
    }

    /// The key that says that the name is this connection's.
    pub(crate) fn owned(&self, owner: u128) -> Vec<u8> {
        self.with(format!("h/x/{OWNED}{owner:032x}").as_bytes())
    }

    /// The range of all such keys.
    pub(crate) fn all_owned(&self) -> (Vec<u8>, Vec<u8>) {
        let prefix = self.with(format!("h/x/{OWNED}").as_bytes());
        let end = end_of_prefix(&prefix);
        (prefix, end)
    }

    /// The ranges of the requests of this connection that wait, in their order.
    pub(crate) fn queue_of(&self, owner: u128) -> [(Vec<u8>, Vec<u8>); 2] {
        ['s', 'x'].map(|mode| {
            let prefix = self.with(format!("q/{mode}/{owner:032x}-").as_bytes());
            let end = end_of_prefix(&prefix);
            (prefix, end)
        })
    }

    /// The ranges of what waits and is not this connection's.
    pub(crate) fn queue_of_others(&self, owner: u128) -> [(Vec<u8>, Vec<u8>); 3] {
        let [(first, after_first), (second, after_second)] = self.queue_of(owner);
        let queue = self.queue();
        let end = end_of_prefix(&queue);
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

impl RequestKey {
    fn parse(text: &str) -> Option<Self> {
        let (owner, slot) = text.split_once('-')?;
        // One spelling only, or two keys were one request.
        let is_long = slot.len() > 8 && !slot.starts_with('0');
        if !(slot.len() == 8 || is_long) || text.contains('+') {
            return None;
        }
        Some(Self { owner: Self::owner(owner)?, slot: u64::from_str_radix(slot, 16).ok()? })
    }

    fn owner(text: &str) -> Option<u128> {
        let is_plain = text.len() == 32 && !text.contains('+');
        u128::from_str_radix(text, 16).ok().filter(|_| is_plain)
    }
}

#[cfg(test)]
mod tests;
