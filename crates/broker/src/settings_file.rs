//! What a file of settings may contain.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, de::IgnoredAny};
use toml::Spanned;

/// Everything that a file of settings may contain: whoever reads a file knows all keys, because a key that is none could
/// be meant to say where a bucket lives. A store says `S`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SettingsFile<S> {
    /// The socket of the user's own broker.
    pub(crate) socket: Option<PathBuf>,
    /// Whether clients of the broker can own names.
    pub delegate: Option<bool>,
    /// What the broker logs.
    pub log: Option<String>,
    /// Whether the broker logs names of locks at every level.
    pub log_names: Option<bool>,
    #[serde(default)]
    pub(crate) buckets: BTreeMap<String, Spanned<BucketTable>>,
    /// The stores by their names.
    #[serde(default)]
    pub stores: BTreeMap<String, Spanned<S>>,
}

/// What clients read, who only have to know which stores there are.
pub(crate) type ForClients = SettingsFile<IgnoredAny>;

/// What the settings say of the buckets of a pattern.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BucketTable {
    #[serde(default)]
    pub(crate) system: bool,
    /// The name of the store in which they live.
    pub(crate) store: Option<String>,
}
