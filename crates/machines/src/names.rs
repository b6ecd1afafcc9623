//! How stores know names and requests.

pub(crate) mod spelling;

use std::sync::Arc;

use navlock_core::{ResourceName, host::NameRef};
use serde::{Deserialize, Serialize};

use self::spelling::{LONGEST, read, spell};

/// A name as it is spelled in a store, by which a reach knows names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Arc<[u8]>")]
pub struct NameKey(Arc<[u8]>);

/// What identifies a request or lock in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestKey {
    /// The number of the connection that has made it, which is random.
    pub owner: u128,
    /// Its number there. A store may use numbers again.
    pub slot: u64,
}

impl NameKey {
    /// The spelling of a name.
    pub fn new(name: &ResourceName) -> Self {
        Self(spell(name.as_bytes()).into())
    }

    /// What has this spelling, whether it is one or not.
    pub fn from_spelling(spelled: &[u8]) -> Self {
        Self(spelled.into())
    }

    /// The spelling.
    pub fn spelling(&self) -> &[u8] {
        &self.0
    }

    /// A reference to the name, for other programs.
    pub fn to_ref(&self) -> NameRef {
        NameRef(Arc::clone(&self.0))
    }

    /// The name that a reference stands for; `None` if no name is spelled like that.
    pub fn of_ref(NameRef(spelled): NameRef) -> Option<Self> {
        spelled.try_into().ok()
    }

    /// Whether the key has only a hash of the name, so that the value must contain the name.
    pub fn is_hash(&self) -> bool {
        self.0.first() == Some(&b'#')
    }

    /// The name itself; `None` if the key has only its hash, or if no name is spelled like that.
    pub fn name(&self) -> Option<ResourceName> {
        ResourceName::from_wtf8(&read(&self.0)?).ok()
    }

    /// The name, or else its spelling.
    #[expect(clippy::missing_panics_doc, reason = "what it expects is so")]
    pub fn shown(&self) -> ResourceName {
        let spelled = || String::from_utf8_lossy(&self.0).trim_start_matches('-').to_owned();
        self.name().unwrap_or_else(|| {
            ResourceName::try_from(&*spelled()).expect("it does not begin with a hyphen")
        })
    }
}

impl TryFrom<Arc<[u8]>> for NameKey {
    type Error = &'static str;

    fn try_from(spelled: Arc<[u8]>) -> Result<Self, Self::Error> {
        let is_spelling = |byte: &u8| byte.is_ascii_alphanumeric() || b"._~-%#".contains(byte);
        let is_name = spelled.len() <= LONGEST && spelled.iter().all(is_spelling);
        is_name.then_some(Self(spelled)).ok_or("no name is spelled like that")
    }
}
