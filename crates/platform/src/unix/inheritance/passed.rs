//! Descriptors that a process has inherited from the process that has started it.

use std::{
    env, fs,
    os::fd::{FromRawFd, OwnedFd, RawFd},
    process,
};

use crate::socket::Listener;

/// The first descriptor that a service manager passes (`sd_listen_fds(3)`).
const FIRST_PASSED: RawFd = 3;

/// Closes everything but the standard streams. If a broker kept its starter's pipe open, those who
/// read the pipe to its end would hang; if it kept another broker's connection open, it would keep
/// that connection's locks.
///
/// The socket that a service manager has passed is kept, and returned.
///
/// To be called before anything is opened and before there is a second thread.
///
/// # Errors
///
/// If more was passed than one socket.
#[allow(unsafe_code, reason = "closing a descriptor that no value of this program owns is that")]
pub fn close_inherited() -> Result<Option<Listener>, String> {
    let passed = passed(|name| env::var(name).ok());
    let first = if passed == Ok(true) { FIRST_PASSED + 1 } else { FIRST_PASSED };
    if !close_from(first) {
        let list =
            ["/proc/self/fd", "/dev/fd"].into_iter().find_map(|list| fs::read_dir(list).ok());
        // The list is read from a descriptor itself. So all of it is collected first, and then only
        // what is still open is closed.
        let listed: Vec<_> = list.into_iter().flatten().filter_map(Result::ok).collect();
        let paths: Vec<_> = listed.into_iter().map(|entry| entry.path()).collect();
        let open = paths.iter().filter(|path| path.symlink_metadata().is_ok());
        let inherited = open.filter_map(|path| path.file_name()?.to_str()?.parse().ok());
        for descriptor in inherited.filter(|&descriptor: &RawFd| descriptor >= first) {
            // SAFETY: This thread is the only one and has opened nothing, so that nothing in this
            // program owns the number or will use it.
            unsafe { rustix::io::close(descriptor) };
        }
    }
    passed.map(|is_passed| {
        // SAFETY: The service manager has passed it to this process, by its number, and nothing in
        // this program owns it yet.
        is_passed.then(|| unsafe { OwnedFd::from_raw_fd(FIRST_PASSED) }.into())
    })
}

/// Closes this descriptor and all with a higher number, also where no `/proc` lists them. Returns false if the
/// system has no such call, as before Linux 5.9.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no safe library has this call")]
fn close_from(first: RawFd) -> bool {
    // SAFETY: As for each single descriptor: this thread is the only one and has opened nothing.
    unsafe { nix::libc::syscall(nix::libc::SYS_close_range, first, RawFd::MAX, 0) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn close_from(_: RawFd) -> bool {
    false
}

/// Whether a service manager has passed us a socket, by what these variables say.
fn passed(variable: impl Fn(&str) -> Option<String>) -> Result<bool, String> {
    let number = |name| variable(name).and_then(|text| text.parse::<u32>().ok());
    // The variables are inherited also by processes for which they were not meant.
    if number("LISTEN_PID") != Some(process::id()) {
        return Ok(false);
    }
    match number("LISTEN_FDS") {
        None | Some(0) => Ok(false),
        Some(1) => Ok(true),
        Some(more) => Err(format!(
            "{more} sockets were passed (LISTEN_FDS), and a broker has one; \
             write one ListenStream= into its unit"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_passed_to_the_process_that_is_named() {
        let of = |pid: u32, sockets: &'static str| {
            passed(move |name| match name {
                "LISTEN_PID" => Some(pid.to_string()),
                _ => Some(sockets.to_owned()),
            })
        };
        let us = process::id();
        assert_eq!(of(us, "1"), Ok(true));
        assert_eq!(of(us + 1, "1"), Ok(false));
        assert_eq!(of(us, "0"), Ok(false));
        assert!(of(us, "2").unwrap_err().contains("2 sockets"));
        assert_eq!(passed(|_| None), Ok(false));
    }
}
