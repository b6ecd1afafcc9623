//! Memory that processes share, or that a forked process does not get.

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

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Pages of memory. They are unmapped when this is dropped.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: pages belong to the process and not to a thread, and this crate accesses them by atomics
// only.
unsafe impl Send for Pages {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pages {}

impl Pages {
    pub(super) fn of_file(file: &File, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let (at, file) = (ptr::null_mut(), file.as_fd());
        // SAFETY: the system chooses a place where nothing is mapped.
        let start = unsafe { mmap(at, bytes, READ_WRITE, MapFlags::SHARED, file, 0) }?;
        Self::new(start, bytes)
    }

    fn anonymous(bytes: usize) -> io::Result<Self> {
        // SAFETY: the system chooses a place where nothing is mapped.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, READ_WRITE, MapFlags::PRIVATE) }?;
        Self::new(start, bytes)
    }

    fn new(start: *mut c_void, bytes: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        Ok(Self { start, bytes })
    }

    /// Sets what happens to the pages when the process forks.
    pub(super) fn advise(&self, advice: Advice) -> Result<(), Errno> {
        debug_assert!(matches!(advice, Advice::LinuxDontFork | Advice::LinuxWipeOnFork));
        // SAFETY: the pages belong to `self`, and no advice that is used here changes them in this
        // process.
        unsafe { madvise(self.start.as_ptr(), self.bytes, advice) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages belong to `self`, and all references to them borrow from `self`.
        let done = unsafe { munmap(self.start.as_ptr(), self.bytes) };
        debug_assert_eq!(done, Ok(()), "what was mapped can be unmapped");
    }
}

/// A page that is empty in a forked process.
#[derive(Debug)]
pub(crate) struct Page(Pages);

impl Page {
    /// `None` if the kernel does not have such pages.
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

    /// Whether this process has made the page.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.mark().load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn mark(&self) -> &AtomicU8 {
        // SAFETY: the page is mapped as long as `self` lives, and only this function makes
        // references to it.
        unsafe { self.0.start.cast().as_ref() }
    }
}
