//! The wheel of Python: made, and installed in an empty environment.

use crate::{python::pack, run::Result};

use super::empty;

pub(super) fn python() -> Result<String> {
    let wheel = pack(&empty("python")?)?;
    Ok(format!("{} passes its tests as installed", wheel.display()))
}
