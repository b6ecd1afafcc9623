//! The memory of a map.

use std::{ffi::c_void, fs::File, io, ptr::NonNull};

use rustix::mm::Advice;

use super::pages::Pages;
use crate::{Slot, Unforked, header::Header, layout};

/// How many bytes of address space each side takes for a map, however long the file is.
pub(super) const BYTES: u64 = layout::bytes(layout::MOST);

/// The pages of a whole map, however long the file is now. Pages behind the end of the file are not
/// accessed, except by a broker, which survives such an access.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// `None` after a forked process has dropped this: other memory may be at this address there.
    pages: Option<Pages>,
    /// For an owner: the process that has these pages.
    only_in: Option<Unforked>,
}

impl Mapping {
    /// The mapping of the process that has made the file. Processes that are forked from it cannot
    /// use the mapping.
    pub(crate) fn of_owner(file: &File) -> io::Result<Self> {
        let pages = Pages::of_file(file, BYTES)?;
        pages.advise(Advice::LinuxDontFork)?;
        Ok(Self { pages: Some(pages), only_in: Some(Unforked::new()?) })
    }

    /// The mapping of the broker, which must [watch](super::Watched) the mapping.
    pub(crate) fn of_broker(file: &File) -> io::Result<Self> {
        Ok(Self { pages: Some(Pages::of_file(file, BYTES)?), only_in: None })
    }

    #[inline]
    pub(crate) fn header(&self) -> Option<&Header> {
        let start = self.start()?;
        // SAFETY: the header fits at the start of these pages, and the alignment of a page
        // suffices. The header consists of atomics, for which all bits have a meaning. So other
        // writers do no harm, and neither do other pages in this place. The pages are mapped in
        // this process as long as `self` is borrowed.
        Some(unsafe { start.cast().as_ref() })
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&Slot> {
        if index >= layout::MOST {
            return None;
        }
        let slots = self.start()?.cast::<Slot>();
        // SAFETY: the header has the place of the first slot, and `layout::MOST` slots fit behind
        // it. Otherwise, the same is true as for the header.
        Some(unsafe { slots.add(1 + index as usize).as_ref() })
    }

    /// The address of the pages, if they are mapped in this process.
    #[inline]
    pub(super) fn start(&self) -> Option<NonNull<c_void>> {
        let is_here = self.only_in.as_ref().is_none_or(Unforked::is_us);
        self.pages.as_ref().filter(|_| is_here).map(|pages| pages.start)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.start().is_none() {
            // Other memory may be at the address of the pages, so this does not unmap them.
            std::mem::forget(self.pages.take());
        }
    }
}
