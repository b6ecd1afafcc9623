//! The browser's own locks, which all pages and workers of an origin share.

pub use navlock_browser::{BrowserReach, browser};
