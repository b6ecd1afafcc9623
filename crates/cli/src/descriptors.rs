//! Descriptors that a broker inherits from whoever happened to need it first.

use std::{fs, os::fd::RawFd};

/// Closes everything but the standard streams: a broker that keeps its starter's pipe open has
/// those hang who read the pipe to its end, and one that keeps another broker's connection open
/// keeps the locks of that.
///
/// To be called before anything is opened and before there is a second thread.
#[allow(unsafe_code, reason = "closing a descriptor that no value of this program owns is that")]
pub(crate) fn close_inherited() {
    let list = ["/proc/self/fd", "/dev/fd"].into_iter().find_map(|list| fs::read_dir(list).ok());
    // Collected first, and what was open then: the list itself is read from a descriptor.
    let listed: Vec<_> = list.into_iter().flatten().filter_map(Result::ok).collect();
    let paths: Vec<_> = listed.into_iter().map(|entry| entry.path()).collect();
    let open = paths.iter().filter(|path| path.symlink_metadata().is_ok());
    let inherited = open
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .filter(|&descriptor: &RawFd| descriptor > 2);
    for descriptor in inherited {
        // SAFETY: This thread is the only one and has opened nothing, so that nothing in this
        // program owns the number or will use it.
        unsafe { rustix::io::close(descriptor) };
    }
}
