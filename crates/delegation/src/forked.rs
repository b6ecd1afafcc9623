//! Whether this process has made a value, or was forked from the process that has.

use std::{io, process};

use crate::system::Page;

/// Tells the process that has made this value from the processes that were forked from it.
///
/// On Linux, this is a page of memory that a forked process finds empty. A check takes one load. On
/// other systems, and if the kernel does not have such pages, this is the number of the process. A
/// check then takes a system call.
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

    /// Whether this process has made the value.
    #[inline]
    pub fn is_us(&self) -> bool {
        match &self.page {
            Some(page) => page.is_whole(),
            None => process::id() == self.process,
        }
    }
}
