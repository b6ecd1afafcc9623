//! Where the program that is the daemon logs.

use std::{fmt, path::Path};

/// Where the program that is the daemon logs what it is told by `tracing`, and what of it.
pub trait Log: fmt::Debug + Send + Sync {
    /// The file, if it is one.
    fn file(&self) -> Option<&Path>;

    /// What is logged, as it can be [set](Self::set_filter).
    fn filter(&self) -> String;

    /// From now on this is logged: a level, or several for parts, as the program takes them.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    fn set_filter(&self, filter: &str) -> Result<(), String>;

    /// How many lines could not be written so far.
    fn dropped(&self) -> u64;
}
