//! What a looker wants to see.

use navlock_core::ResourceName;

/// The bucket and name that a looker wants to see, or all.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) bucket: Option<String>,
    pub(super) name: Option<ResourceName>,
}

impl Filter {
    /// Whether the looker sees this name of this bucket.
    pub(super) fn has(&self, bucket: &str, name: &ResourceName) -> bool {
        self.has_bucket(bucket) && self.name.as_ref().is_none_or(|wanted| wanted == name)
    }

    pub(super) fn has_bucket(&self, bucket: &str) -> bool {
        self.bucket.as_ref().is_none_or(|wanted| wanted == bucket)
    }
}
