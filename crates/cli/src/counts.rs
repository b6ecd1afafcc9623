//! What the broker has counted.

use navlock::{Error, Place};
use navlock_broker::Control;

use crate::exit::{Failure, UNREACHABLE};

/// What the broker at this place has counted, in the format of Prometheus.
pub(crate) fn prometheus(place: &Place) -> Result<String, Failure> {
    let mut control = Control::connect(place).map_err(Error::from)?;
    let Some(report) = control.report().map_err(Error::from)? else {
        let why = "the broker that runs is of an older release, and counts nothing";
        return Err(Failure::new(UNREACHABLE, why));
    };
    Ok(report.numbers.prometheus())
}
