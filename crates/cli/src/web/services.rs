//! What the site can do besides showing.

use std::sync::Arc;

use navlock::look::LockName;

use crate::steal::Holder;

/// Steals a name from these holders, and from nobody else, and releases it. Returns why not, if
/// that failed.
pub(crate) type Steal = dyn Fn(&LockName, &[Holder]) -> Result<(), String> + Send + Sync;

/// Returns the broker's numbers, as Prometheus reads them, or why that failed.
pub(crate) type Metrics = dyn Fn() -> Result<String, String> + Send + Sync;

/// What the site can do besides showing. Both functions block.
pub(crate) struct Services {
    /// `None` if nothing may be stolen.
    pub(crate) steal: Option<Arc<Steal>>,
    pub(crate) metrics: Arc<Metrics>,
    /// This is called whenever somebody has come in.
    pub(crate) entered: Box<dyn Fn() + Send + Sync>,
}
