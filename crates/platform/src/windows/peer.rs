//! Who is at the other end of a pipe.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{io, os::windows::io::AsHandle};

use windows_sys::Win32::System::Pipes::{GetNamedPipeClientProcessId, GetNamedPipeServerProcessId};

use super::{
    pipe::{Pipe, Side},
    security,
    system::checked,
};
use crate::{process::Handle, socket::Stream, user::UserId};

/// Who is at the other end of a pipe, or made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whose process it is.
    pub user: UserId,
    /// Its number.
    pub process: Option<u32>,
}

/// Who is at the other end.
///
/// # Errors
///
/// If it cannot be asked, or has ended.
pub fn of(stream: &Stream) -> io::Result<Peer> {
    of_pipe(stream.pipe())
}

/// The process that listens at the other end.
pub fn listener(stream: &Stream) -> Option<Handle> {
    Handle::open(number(stream.pipe()).ok()?).ok()
}

fn of_pipe(pipe: &Pipe) -> io::Result<Peer> {
    let number = number(pipe)?;
    let process = Handle::open(number)?;
    // A process whose token we may not look at is another's.
    let user =
        security::user_of_process(process.as_handle()).ok_or(io::ErrorKind::PermissionDenied)?;
    Ok(Peer { user, process: Some(number) })
}

fn number(pipe: &Pipe) -> io::Result<u32> {
    let mut number = 0;
    pipe.with_handle(|handle| {
        // SAFETY: The handle is open, and there is room for the number.
        checked(unsafe {
            match pipe.side {
                Side::Server => GetNamedPipeClientProcessId(handle, &raw mut number),
                Side::Client => GetNamedPipeServerProcessId(handle, &raw mut number),
            }
        })
    })??;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::ours;

    #[test]
    fn each_end_knows_the_process_at_the_other_and_whose_it_is() {
        let (one, other) = Stream::pair().unwrap();
        let us = Peer { user: ours(), process: Some(std::process::id()) };
        assert_eq!(of(&one).unwrap(), us);
        assert_eq!(of(&other).unwrap(), us);
        assert_eq!(listener(&other).unwrap().number(), std::process::id());
    }
}
