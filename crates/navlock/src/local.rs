//! Locks that all processes of a user on this machine share.

pub use navlock_broker::{
    BrokerReach, CodecError, ConnectError, ConnectOptions, INSIDE_VARIABLE, Lifeline, Look,
    LookOptions, News, Place, PlaceError, PreparedLifeline, Project, Reason, SettingsError, Status,
    SystemError, local, local_blocking, lower_thread_priority, surrounding, system, this_process,
    told_to_command,
};

#[cfg(feature = "carried")]
pub use navlock_broker::{serve_by, serve_if_asked};
