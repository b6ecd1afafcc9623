//! What somebody wants to see who looks.

use navlock_core::ResourceName;

/// What somebody wants to see.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) bucket: Option<String>,
    pub(super) name: Option<ResourceName>,
}

impl Filter {
    /// Whether something of this bucket and name is to be seen.
    pub(super) fn has(&self, bucket: &str, name: &ResourceName) -> bool {
        self.has_bucket(bucket) && self.name.as_ref().is_none_or(|wanted| wanted == name)
    }

    pub(super) fn has_bucket(&self, bucket: &str) -> bool {
        self.bucket.as_ref().is_none_or(|wanted| wanted == bucket)
    }
}
