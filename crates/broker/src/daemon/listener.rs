//! Who comes and who goes.

use std::{future::pending, time::Duration};

use navlock_core::UserAgent;
use tokio::{
    net::{UnixListener, UnixStream},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{Limits, Options, session::Session};
use crate::runtime_dir::uid;

/// Serves the locks of `user_agent` to whoever connects and has our uid, until there has been no
/// client for the time that the options say. Must be called in a tokio runtime.
///
/// # Cancel safety
///
/// Dropping the future ends all sessions, as if their clients had died.
pub async fn serve(listener: &UnixListener, user_agent: UserAgent, options: Options) {
    let mut sessions = JoinSet::new();
    let mut idle_since = Instant::now();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if is_ours(&stream) {
                        sessions.spawn(session(stream, user_agent.clone(), options.limits));
                    }
                }
                // Out of descriptors, most likely: others will go, and their clients' patience is
                // longer than this.
                Err(_) => sleep(Duration::from_millis(20)).await,
            },
            // A session that panicked has ended like any other: what its client had is free.
            Some(_) = sessions.join_next() => {
                if sessions.is_empty() {
                    idle_since = Instant::now();
                }
            }
            () = idle(idle_since, &options), if sessions.is_empty() => return,
        }
    }
}

async fn idle(since: Instant, options: &Options) {
    match options.idle.and_then(|idle| since.checked_add(idle)) {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}

/// Same uid or nothing. The modes of directory and socket say so already; this asks the kernel.
fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == uid())
}

async fn session(stream: UnixStream, user_agent: UserAgent, limits: Limits) {
    let mut session = Session::new(stream, user_agent, limits);
    // How it ended does not matter: the client is gone, or has earned it.
    if let Ok(Ok(())) = timeout(limits.handshake, session.shake_hands()).await {
        let _ = session.serve().await;
    }
}
