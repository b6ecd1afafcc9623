//! The browser's own locks, which all pages and workers of an origin share.
//!
//! [`browser`] is where `navigator.locks` is.
//!
//! ```no_run
//! # async fn example() -> Result<(), navlock::Error> {
//! let locks = navlock::browser()?.lock_manager("");
//! // As `navigator.locks.request('db', …)` does.
//! let guard = locks.lock("db").await?;
//! # Ok(())
//! # }
//! ```

pub use navlock_browser::{BrowserReach, browser};
