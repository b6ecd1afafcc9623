//! The machine, and who sees what of it.

use std::path::Path;

/// What tells this run of the machine from all others of any machine. Here it is not known.
pub fn boot_id() -> Option<String> {
    None
}

/// Whether what we see at this path is something else than what others see there. Here it cannot be told.
pub fn is_secluded(_: &Path) -> bool {
    false
}
