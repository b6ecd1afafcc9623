//! Locks that all processes of a user on this machine share.
//!
//! [`local`] connects to the user's broker and starts it if it is not there: with the program that
//! `NAVLOCK_BIN` names, or else `navlock` from `PATH`. A [`BrokerReach`] does the same with
//! another broker, or another program.
//!
//! ```no_run
//! # navlock::blocking::block_on(async {
//! let locks = navlock::local().await?.lock_manager("my-app");
//! let guard = locks.lock("db").await?;
//! # drop(guard);
//! # Ok::<(), navlock::Error>(())
//! # }).unwrap();
//! ```

pub use navlock_broker::{
    BrokerReach, CodecError, ConnectError, ConnectOptions, INSIDE_VARIABLE, Lifeline, Look,
    LookOptions, News, Place, PlaceError, PreparedLifeline, Reason, SettingsError, Status,
    SystemError, local, lower_thread_priority, surrounding, this_process, told_to_command,
};
