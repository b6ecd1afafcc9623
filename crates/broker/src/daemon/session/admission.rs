//! How a session begins: its client's claims are settled together with the claims of all other
//! clients.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
};

use bytes::{Buf, BytesMut};
use futures_util::{
    FutureExt,
    future::{Fuse, FusedFuture},
};
use navlock_wire::FromDaemon;

use super::{
    super::{
        awaited::Socket, claims::Claims, connected::ConnectedClient, session_ends::End,
        stream::Stream, term_messages::ToldTerms,
    },
    Session, say_terms,
};

/// A session that has not begun, with its connection.
pub(in super::super) struct Admission {
    stream: Stream,
    session: Session,
}

impl Admission {
    pub(in super::super) fn new(stream: Stream, session: Session) -> Self {
        Self { stream, session }
    }

    /// Waits until the claims of this client and of all other clients are settled, or until the client's
    /// process has `ended`. Returns the session, its connection, and what was read from that.
    pub(in super::super) async fn settle(
        mut self,
        claims: Claims,
        ended: impl Future<Output = ()>,
    ) -> Result<(Session, Socket, BytesMut), End> {
        self.admit(claims, pin!(ended.fuse())).await?;
        Ok((self.session, self.stream.socket, self.stream.heard))
    }

    async fn admit(
        &mut self,
        mut claims: Claims,
        mut ended: Pin<&mut Fuse<impl Future<Output = ()>>>,
    ) -> Result<(), End> {
        let Self { stream, session } = self;
        let Session { connected, daemon, terms: Some(terms), outgoing, .. } = session else {
            return tokio::select! {
                biased;
                settled = session.settle(claims) => settled,
                () = ended => Err(End::Died),
            };
        };
        let mut meanwhile = Meanwhile { stream, outgoing, terms, connected };
        // If others have inherited locks of the client, its claims are reclaimed even if the client
        // itself has gone: the inheritors get these locks together with the others.
        let is_needed = || daemon.has_inheritors(connected);
        let goes_on = daemon.go_on(connected, &mut claims);
        meanwhile.wait(goes_on, ended.as_mut(), is_needed).await?;
        if ended.is_terminated() || meanwhile.is_gone() {
            return Err(End::Gone);
        }
        meanwhile.wait(daemon.admit(connected, claims), ended, || false).await?;
        say_terms(outgoing, terms, connected)?;
        session.say(&FromDaemon::Settled)
    }
}

impl Session {
    /// Waits until the claims of this client and of all other clients are settled, where locks are not leased.
    pub(in super::super) async fn settle(&mut self, mut claims: Claims) -> Result<(), End> {
        self.daemon.go_on(&self.connected, &mut claims).await;
        self.daemon.admit(&self.connected, claims).await;
        self.say(&FromDaemon::Settled)
    }
}

/// A client that is told of changed terms while its claims are settled.
struct Meanwhile<'a> {
    stream: &'a Stream,
    outgoing: &'a mut BytesMut,
    terms: &'a mut ToldTerms,
    connected: &'a ConnectedClient,
}

impl Meanwhile<'_> {
    /// Whether the client has hung up, even if messages that it sent before that are still unread.
    fn is_gone(&self) -> bool {
        self.stream.socket.member().has_ended()
    }

    /// Waits for the `awaited` future. Gives up when the client has hung up or its process has `ended`,
    /// unless the result `is_needed` even then.
    async fn wait(
        &mut self,
        awaited: impl Future<Output = ()>,
        mut ended: Pin<&mut Fuse<impl Future<Output = ()>>>,
        is_needed: impl Fn() -> bool,
    ) -> Result<(), End> {
        let mut awaited = pin!(awaited);
        loop {
            tokio::select! {
                () = &mut awaited => return Ok(()),
                () = poll_fn(|context| self.terms.poll_look(context)) => {}
                () = ended.as_mut(), if !ended.is_terminated() => {}
            }
            if !ended.is_terminated() && !self.is_gone() {
                say_terms(self.outgoing, self.terms, self.connected)?;
                // What is not sent now is sent with what comes next.
                if let Ok(sent) = self.stream.socket.member().write(self.outgoing) {
                    self.outgoing.advance(sent);
                }
            } else if !is_needed() {
                return Err(End::Gone);
            }
        }
    }
}
