//! What is done for whoever asks, beside looking.

use std::sync::Arc;

use navlock::look::LockName;

use crate::steal::Holder;

/// Takes a name from these holders, and from nobody else, and releases it; why not, if it was not.
pub(crate) type Steal = dyn Fn(&LockName, &[Holder]) -> Result<(), String> + Send + Sync;

/// Tells the broker's numbers, as Prometheus reads them; why not, if it cannot.
pub(crate) type Metrics = dyn Fn() -> Result<String, String> + Send + Sync;

/// What is done for whoever asks, beside looking. Both block.
pub(crate) struct Services {
    /// `None` if nothing may be stolen.
    pub(crate) steal: Option<Arc<Steal>>,
    pub(crate) metrics: Arc<Metrics>,
    /// Is called whenever somebody has come in.
    pub(crate) entered: Box<dyn Fn() + Send + Sync>,
}
