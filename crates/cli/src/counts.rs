//! What the broker has counted.

use navlock::{Error, Place};
use navlock_broker::Control;

use crate::exit::Failure;

/// What the broker at this place has counted, in the format of Prometheus.
pub(crate) fn prometheus(place: &Place) -> Result<String, Failure> {
    let mut control = Control::connect(place).map_err(Error::from)?;
    let status = control.status().map_err(Error::from)?;
    Ok(status.numbers.prometheus())
}
