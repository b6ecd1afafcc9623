//! Where the program that runs the daemon logs.

use std::{fmt, path::Path};

/// Where the program that runs the daemon logs what it gets from `tracing`, and how much of that it
/// logs.
pub trait Log: fmt::Debug + Send + Sync {
    /// The file to which it logs, if it is a file.
    fn file(&self) -> Option<&Path>;

    /// What is logged, in the form in which it can be [set](Self::set_filter).
    fn filter(&self) -> String;

    /// Sets what is logged from now on: one level, or several levels for parts, in the form that
    /// the program takes.
    ///
    /// # Errors
    ///
    /// What is wrong with the filter, for people.
    fn set_filter(&self, filter: &str) -> Result<(), String>;

    /// How many lines could not be written so far.
    fn dropped(&self) -> u64;
}
