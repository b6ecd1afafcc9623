//! The memory of a map.

use std::{ffi::c_void, fs::File, io, ptr::NonNull};

use rustix::mm::Advice;

use super::pages::Pages;
use crate::{
    Slot, Unforked,
    header::{self, Header},
};

/// How many bytes of address space each side takes for a map, however long the file is.
pub(super) const BYTES: u64 = header::bytes(header::MOST);

/// The pages of a whole map, however long the file is now. Pages behind the end of the file are not accessed,
/// except by a broker, which survives that.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// `None` once a forked process has dropped it: other memory may be in this place there.
    pages: Option<Pages>,
    /// For an owner: the process that has these pages.
    only_in: Option<Unforked>,
}

impl Mapping {
    /// The mapping of the process that has made the file; not for processes forked from it.
    pub(crate) fn of_owner(file: &File) -> io::Result<Self> {
        let pages = Pages::of_file(file, BYTES)?;
        pages.advise(Advice::LinuxDontFork)?;
        Ok(Self { pages: Some(pages), only_in: Some(Unforked::new()?) })
    }

    /// The mapping of the broker, which must [watch](super::Watched) it.
    pub(crate) fn of_keeper(file: &File) -> io::Result<Self> {
        Ok(Self { pages: Some(Pages::of_file(file, BYTES)?), only_in: None })
    }

    #[inline]
    pub(crate) fn header(&self) -> Option<&Header> {
        let start = self.start()?;
        // SAFETY: a header fits in these pages at their start, which is aligned to more than it needs. It
        // consists of atomics, for which all bits have a meaning, so that it does not matter who else writes
        // there, or that other pages are put in their place. The pages are mapped in this process for as long
        // as `self` is borrowed.
        Some(unsafe { start.cast().as_ref() })
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&Slot> {
        if index >= header::MOST {
            return None;
        }
        let slots = self.start()?.cast::<Slot>();
        // SAFETY: the header has the place of the first slot, and this many more fit in these pages.
        // Otherwise the same holds for a slot as for a header.
        Some(unsafe { slots.add(1 + index as usize).as_ref() })
    }

    /// Where the pages are, if they are in this process.
    #[inline]
    pub(super) fn start(&self) -> Option<NonNull<c_void>> {
        let is_here = self.only_in.as_ref().is_none_or(Unforked::is_us);
        self.pages.as_ref().filter(|_| is_here).map(|pages| pages.start)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.start().is_none() {
            // Other memory may be where the pages were, so they are not unmapped.
            std::mem::forget(self.pages.take());
        }
    }
}
