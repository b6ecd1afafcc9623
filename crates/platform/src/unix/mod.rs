//! The half for Unix.

pub mod clock;
pub mod descriptor;
#[cfg(feature = "command")]
pub mod family;
pub mod file;
pub mod file_lock;
#[cfg(feature = "command")]
pub mod inheritance;
pub mod library;
pub mod machine;
pub mod peer;
pub mod process;
#[cfg(feature = "command")]
pub mod service_manager;
pub mod shortage;
#[cfg(feature = "command")]
pub mod signal;
pub mod socket;
pub mod surroundings;
#[cfg(feature = "command")]
pub mod terminal;
pub mod thread;
pub mod user;
pub mod wait;
pub mod watch;
