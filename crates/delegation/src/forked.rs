//! Whether this process is the one that has made a value, or was forked from it.

use std::{io, process};

use crate::system::Page;

/// Tells the process that has made this value from those that were forked from it.
///
/// On Linux this is a page of memory that a forked process finds empty, which takes one load to see.
/// Elsewhere, and where the kernel does not know of such pages, it is the number of the process, which takes
/// a system call.
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

    /// Whether this is the process that has made the value.
    #[inline]
    pub fn is_us(&self) -> bool {
        match &self.page {
            Some(page) => page.is_whole(),
            None => process::id() == self.process,
        }
    }
}
