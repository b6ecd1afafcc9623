//! Memory that is shared, or that a forked process does not get.

use std::{
    ffi::c_void,
    fs::File,
    io,
    os::fd::AsFd,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU8, Ordering},
};

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap},
};

use crate::{
    Slot, Unforked,
    header::{self, Header},
};

/// So many bytes of address space each side takes for a map, however long the file is.
pub(super) const BYTES: u64 = header::bytes(header::MOST);

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Pages of memory. They are unmapped when this is dropped.
#[derive(Debug)]
struct Pages {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: pages belong to the process, not to a thread, and nothing here refers to them but by atomics.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn of_file(file: &File, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let (at, file) = (ptr::null_mut(), file.as_fd());
        // SAFETY: the system chooses a place where nothing is.
        let start = unsafe { mmap(at, bytes, READ_WRITE, MapFlags::SHARED, file, 0) }?;
        Self::new(start, bytes)
    }

    fn anonymous(bytes: usize) -> io::Result<Self> {
        // SAFETY: the system chooses a place where nothing is.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, READ_WRITE, MapFlags::PRIVATE) }?;
        Self::new(start, bytes)
    }

    fn new(start: *mut c_void, bytes: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        Ok(Self { start, bytes })
    }

    /// Says what becomes of the pages when the process forks.
    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        debug_assert!(matches!(advice, Advice::LinuxDontFork | Advice::LinuxWipeOnFork));
        // SAFETY: the pages are ours, and neither of these changes them in this process.
        unsafe { madvise(self.start.as_ptr(), self.bytes, advice) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages are ours, and whatever refers to them borrows from `self`.
        let done = unsafe { munmap(self.start.as_ptr(), self.bytes) };
        debug_assert_eq!(done, Ok(()), "what was mapped can be unmapped");
    }
}

/// The place of a whole map, however long the file is now: what is behind its end is not accessed, or by
/// a keeper, which survives that.
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

/// A page of which a forked process has an empty one.
#[derive(Debug)]
pub(crate) struct Page(Pages);

impl Page {
    /// `None` if the kernel has no such pages.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub(crate) fn new() -> io::Result<Option<Self>> {
        let page = Self(Pages::anonymous(size_of::<AtomicU8>())?);
        if page.0.advise(Advice::LinuxWipeOnFork).is_err() {
            return Ok(None);
        }
        page.mark().store(1, Ordering::Relaxed);
        Ok(Some(page))
    }

    /// Whether this is the process that has made it.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.mark().load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn mark(&self) -> &AtomicU8 {
        // SAFETY: the page is there for as long as `self` is, and only this refers to it.
        unsafe { self.0.start.cast().as_ref() }
    }
}
