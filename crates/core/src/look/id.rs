//! The ids by which locks and requests are told apart.

use std::{cmp::Ordering, error, fmt, str::FromStr, sync::Arc};

use navlock_engine::ResourceName;

use crate::ClientId;

/// The id of a request, and of the lock that the request becomes. It stays the same as long as the
/// request or the lock is there, even when another broker has taken over.
///
/// Written as `CLIENT ID/SERIAL`.
///
/// ```
/// use navlock::{Error, UserAgent, look::LockId};
///
/// let guard = UserAgent::new().lock_manager("app").lock("db").blocking()?;
/// let id: LockId = guard.id();
/// assert_eq!(id.to_string().parse(), Ok(id));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LockId {
    /// The agent's client id.
    pub client_id: ClientId,
    /// The number of the request among all requests of this agent.
    pub serial: u64,
}

/// A name in its bucket. Each has a queue of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LockName {
    /// The bucket's name.
    pub bucket: Arc<str>,
    /// The lock's name.
    pub name: ResourceName,
}

/// A text that is no [`LockId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLockIdError;

impl LockId {
    /// Stands for whichever lock this agent has: a request that names it was perhaps made inside one of them.
    pub const fn some_of(client_id: ClientId) -> Self {
        Self { client_id, serial: u64::MAX }
    }

    /// Whether it stands for [whichever](Self::some_of) lock its agent has.
    pub const fn is_some_of(&self) -> bool {
        self.serial == u64::MAX
    }
}

impl LockName {
    /// This name in this bucket.
    pub fn new(bucket: impl Into<Arc<str>>, name: ResourceName) -> Self {
        Self { bucket: bucket.into(), name }
    }
}

impl Ord for LockName {
    /// By bucket, then by name.
    fn cmp(&self, other: &Self) -> Ordering {
        // FAST: mostly the names that are compared share their bucket.
        let is_same = Arc::ptr_eq(&self.bucket, &other.bucket);
        let buckets = if is_same { Ordering::Equal } else { self.bucket.cmp(&other.bucket) };
        buckets.then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for LockName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.client_id, self.serial)
    }
}

impl FromStr for LockId {
    type Err = ParseLockIdError;

    fn from_str(text: &str) -> Result<Self, ParseLockIdError> {
        let (client_id, serial) = text.split_once('/').ok_or(ParseLockIdError)?;
        let client_id = client_id.parse().map_err(|_| ParseLockIdError)?;
        let serial = serial.parse().map_err(|_| ParseLockIdError)?;
        Ok(Self { client_id, serial })
    }
}

impl fmt::Display for ParseLockIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the id of a lock, which is a client id, a slash and a number")
    }
}

impl error::Error for ParseLockIdError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_buckets_and_then_of_themselves() {
        let name = |bucket: &Arc<str>, name: &str| {
            LockName::new(Arc::clone(bucket), name.try_into().unwrap())
        };
        let (a, other_a, b): (Arc<str>, Arc<str>, Arc<str>) = ("a".into(), "a".into(), "b".into());
        assert_eq!(name(&a, "x").cmp(&name(&other_a, "x")), Ordering::Equal);
        assert_eq!(name(&a, "x"), name(&other_a, "x"));
        for bucket in [&a, &other_a] {
            assert!(name(&a, "x") < name(bucket, "y") && name(bucket, "y") < name(&b, "x"));
        }
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = LockId { client_id: ClientId::random(), serial: u64::MAX };
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "/", "x/1", &id.client_id.to_string(), &format!("{id}0")] {
            assert_eq!(wrong.parse::<LockId>(), Err(ParseLockIdError), "{wrong}");
        }
    }
}
