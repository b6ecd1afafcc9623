//! What the site can do besides showing.

use std::sync::Arc;

use navlock::look::LockName;

use crate::steal::Holder;

/// Steals a name from these holders, and from nobody else, and releases it. If that fails, returns
/// the reason.
pub(crate) type Steal = dyn Fn(&LockName, &[Holder]) -> Result<(), String> + Send + Sync;

/// Returns the broker's numbers in the format of Prometheus, or the reason why that has failed.
pub(crate) type Metrics = dyn Fn() -> Result<String, String> + Send + Sync;

/// What the site can do besides showing. Both functions block.
pub(crate) struct Services {
    /// Steals locks; `None` if pages may not steal.
    pub(crate) steal: Option<Arc<Steal>>,
    pub(crate) metrics: Arc<Metrics>,
    /// Called whenever somebody has come in.
    pub(crate) entered: Box<dyn Fn() + Send + Sync>,
}
