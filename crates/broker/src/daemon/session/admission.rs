//! How a session begins: its client's claims are settled together with the claims of all other
//! clients.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Context,
};

use futures_util::{
    FutureExt,
    future::{Fuse, FusedFuture},
    task::noop_waker_ref,
};
use navlock_wire::FromDaemon;
use tokio::io::{Interest, Ready};

use super::{
    super::{
        claims::Claims, connected::ConnectedClient, session_ends::End, term_messages::ToldTerms,
    },
    Session, Stream, flush, say_terms,
};

impl Session {
    /// Waits until the claims of this client and of all other clients are settled, or until the client's
    /// process has `ended`.
    pub(in super::super) async fn settle(
        &mut self,
        claims: Claims,
        ended: impl Future<Output = ()>,
    ) -> Result<(), End> {
        self.admit(claims, pin!(ended.fuse())).await?;
        self.say(&FromDaemon::Settled)
    }

    pub(super) async fn admit(
        &mut self,
        mut claims: Claims,
        mut ended: Pin<&mut Fuse<impl Future<Output = ()>>>,
    ) -> Result<(), End> {
        let Self { stream, connected, daemon, terms, .. } = self;
        let Some(terms) = terms else {
            let admitted = async {
                daemon.go_on(connected, &mut claims).await;
                daemon.admit(connected, claims).await;
            };
            return tokio::select! {
                biased;
                () = admitted => Ok(()),
                () = ended => Err(End::Died),
            };
        };
        // If others have inherited locks of the client, its claims are reclaimed even if the client
        // itself has gone: the inheritors get these locks together with the others.
        let is_needed = || daemon.has_inheritors(connected);
        let goes_on = daemon.go_on(connected, &mut claims);
        meanwhile(stream, terms, connected, goes_on, ended.as_mut(), is_needed).await?;
        if ended.is_terminated() || is_gone(stream) {
            return Err(End::Gone);
        }
        meanwhile(stream, terms, connected, daemon.admit(connected, claims), ended, || false)
            .await?;
        say_terms(stream, terms, connected)
    }
}

/// Waits for the `awaited` future, and meanwhile tells the client of changed terms. Gives up when
/// the client has hung up or its process has `ended`, unless the result `is_needed` even then.
async fn meanwhile(
    stream: &mut Stream,
    terms: &mut ToldTerms,
    connected: &ConnectedClient,
    awaited: impl Future<Output = ()>,
    mut ended: Pin<&mut Fuse<impl Future<Output = ()>>>,
    is_needed: impl Fn() -> bool,
) -> Result<(), End> {
    let mut awaited = pin!(awaited);
    loop {
        tokio::select! {
            () = &mut awaited => return Ok(()),
            () = poll_fn(|context| terms.poll_look(context)) => {}
            () = ended.as_mut(), if !ended.is_terminated() => {}
        }
        if !ended.is_terminated() && !is_gone(stream) {
            say_terms(stream, terms, connected)?;
            let _ = flush(stream, &mut Context::from_waker(noop_waker_ref()));
        } else if !is_needed() {
            return Err(End::Gone);
        }
    }
}

/// Whether the client has hung up, even if messages that it sent before that are still unread.
fn is_gone(stream: &Stream) -> bool {
    let ready = stream.get_ref().ready(Interest::READABLE).now_or_never();
    ready.is_some_and(|ready| ready.is_ok_and(Ready::is_read_closed))
}
