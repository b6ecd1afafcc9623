//! The memory of a map.

use std::{ffi::c_void, fs::File, io, ptr::NonNull};

use rustix::mm::Advice;

use super::pages::Pages;
use crate::{
    Slot, Unforked,
    header::{self, Header},
};

/// So many bytes of address space each side takes for a map, however long the file is.
pub(super) const BYTES: u64 = header::bytes(header::MOST);

/// The place of a whole map, however long the file is now: what is behind its end is not accessed, or by
/// a broker, which survives that.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// `None` once a forked process has dropped it, in which other memory may be there.
    pages: Option<Pages>,
    /// Of the owner, the process that has these pages.
    only_in: Option<Unforked>,
}

impl Mapping {
    /// For the process that has made the file; not for those that are forked from it.
    pub(crate) fn of_owner(file: &File) -> io::Result<Self> {
        let pages = Pages::of_file(file, BYTES)?;
        pages.advise(Advice::LinuxDontFork)?;
        Ok(Self { pages: Some(pages), only_in: Some(Unforked::new()?) })
    }

    /// For the broker, which must [watch](super::Watched) it.
    pub(crate) fn of_keeper(file: &File) -> io::Result<Self> {
        Ok(Self { pages: Some(Pages::of_file(file, BYTES)?), only_in: None })
    }

    #[inline]
    pub(crate) fn header(&self) -> Option<&Header> {
        let start = self.start()?;
        // SAFETY: a header fits in these pages at their start, which is aligned to more than it needs;
        // it consists of atomics, for which all bits have a meaning, so that it does not matter who
        // else writes there, or that other pages are put in their place. They are mapped in this
        // process for as long as `self` is borrowed.
        Some(unsafe { start.cast().as_ref() })
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&Slot> {
        if index >= header::MOST {
            return None;
        }
        let slots = self.start()?.cast::<Slot>();
        // SAFETY: the header has the place of the first, and so many more fit in these pages. For the
        // rest, a slot is what a header is.
        Some(unsafe { slots.add(1 + index as usize).as_ref() })
    }

    /// Where the pages are, if they are.
    #[inline]
    pub(super) fn start(&self) -> Option<NonNull<c_void>> {
        let is_here = self.only_in.as_ref().is_none_or(Unforked::is_us);
        self.pages.as_ref().filter(|_| is_here).map(|pages| pages.start)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.start().is_none() {
            // Where they were, something else may be by now.
            std::mem::forget(self.pages.take());
        }
    }
}
