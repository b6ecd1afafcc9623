//! The modules for Windows.

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
mod operation;
mod peek;
pub mod peer;
mod pipe;
pub mod process;
pub mod readiness;
mod security;
#[cfg(feature = "command")]
pub mod service_manager;
#[cfg(feature = "command")]
pub mod shell;
pub mod shortage;
#[cfg(feature = "command")]
pub mod signal;
pub mod socket;
pub mod surroundings;
mod system;
#[cfg(feature = "command")]
pub mod terminal;
pub mod thread;
pub mod user;
pub mod wait;
pub mod watch;
