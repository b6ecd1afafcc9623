//! Whose processes a daemon serves: those of its own user, and of nobody else.

use navlock_platform::{peer, socket::Stream, user};

/// Whether a process of this user has connected. The modes of the directory and of the socket keep other
/// users away already. Here the kernel is asked who is at the other end, in case somebody has changed these
/// modes.
pub(super) fn is_same_user(stream: &Stream) -> bool {
    peer::of(stream).is_ok_and(|peer| peer.user == user::ours())
}
