//! Who is at the other end of a socket.

use std::io;

use crate::{process::Handle, socket::Stream, user::UserId};

/// Who is at the other end of a socket, or made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whose process it is.
    pub user: UserId,
    /// Its number; `None` where that is not known, as of a process in another container.
    pub process: Option<u32>,
}

/// Who is at the other end; where the system does not say, somebody of this user, who alone can use
/// the socket's directory.
///
/// # Errors
///
/// If it cannot be asked.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn of(stream: &Stream) -> io::Result<Peer> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    // rustix has no type for a process without a number, as a process in another PID namespace is.
    let peer = getsockopt(stream, PeerCredentials)?;
    let process = u32::try_from(peer.pid()).ok().filter(|&number| number > 0);
    Ok(Peer { user: peer.uid(), process })
}

/// Who is at the other end.
///
/// # Errors
///
/// If it cannot be asked.
#[cfg(target_vendor = "apple")]
pub fn of(stream: &Stream) -> io::Result<Peer> {
    use nix::sys::socket::{
        getsockopt,
        sockopt::{LocalPeerCred, LocalPeerPid},
    };
    let user = getsockopt(stream, LocalPeerCred)?.uid();
    // The last process that has used the socket, should it have been passed on.
    let process = getsockopt(stream, LocalPeerPid).ok();
    let process = process.and_then(|pid| u32::try_from(pid).ok()).filter(|&number| number > 0);
    Ok(Peer { user, process })
}

/// Who is at the other end: this user, since the modes of directory and socket admit nobody else.
///
/// # Errors
///
/// None.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub fn of(_: &Stream) -> io::Result<Peer> {
    Ok(Peer { user: crate::user::ours(), process: None })
}

/// The process that listens at the other end: the one that has begun to, if several could. `None`
/// where that is not known.
#[cfg(target_os = "linux")]
pub fn listener(stream: &Stream) -> Option<Handle> {
    use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
    let pid = rustix::net::sockopt::socket_peercred(stream).ok()?.pid;
    // Zero stands for a process that we cannot see, in another PID namespace.
    let number = u32::try_from(pid.as_raw_nonzero().get()).ok()?;
    // Before Linux 6.5 the process is opened by its number, while the connection stands. What else
    // is asked of the process is asked afterwards, with this descriptor at hand.
    let known = getsockopt(stream, PeerPidfd).ok().map(|found| Handle::known(number, found));
    known.or_else(|| Handle::open(number).ok())
}

/// The process that listens at the other end. Here it is not known for certain: Apple's systems name
/// the last process that has used the socket.
#[cfg(not(target_os = "linux"))]
pub fn listener(_: &Stream) -> Option<Handle> {
    None
}

#[cfg(all(test, any(target_os = "linux", target_vendor = "apple")))]
mod tests {
    use super::*;
    use crate::user::ours;

    #[test]
    fn the_peer_of_a_stream_is_known() {
        let us = Peer { user: ours(), process: Some(std::process::id()) };
        let (stream, _other) = Stream::pair().unwrap();
        assert_eq!(of(&stream).unwrap(), us);
    }
}
