//! Whether this is still the process that it was.

use std::{io, process};

use crate::system::Page;

/// Tells the process that has made it from those that were forked from it.
///
/// On Linux by a page of memory that a forked process finds empty, which takes one load; elsewhere, and
/// where the kernel does not know of such pages, by the number of the process, which takes a system
/// call.
#[derive(Debug)]
pub struct Unforked {
    page: Option<Page>,
    process: u32,
}

impl Unforked {
    /// Marks this process.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self { page: Page::new()?, process: process::id() })
    }

    /// Whether this is the process that has made it.
    #[inline]
    pub fn is_us(&self) -> bool {
        match &self.page {
            Some(page) => page.is_whole(),
            None => process::id() == self.process,
        }
    }
}
