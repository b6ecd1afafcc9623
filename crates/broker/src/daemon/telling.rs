//! Telling those who look, on a thread of its own: to put messages together, to send them and to wake whoever
//! reads them is nothing that those who lock should wait for.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
};

use bytes::{Buf, BytesMut};
use navlock_platform::socket::{self, AsyncStream, Stream};
use navlock_wire::{CodecError, DaemonCodec, FromDaemon, encode_look_events};
use tokio::{sync::mpsc, task::yield_now};
use tokio_util::codec::Encoder;

use super::{journal::PART, lookers::Looker, picture::Picture};
use crate::pid_namespace;

/// What the one who tells says to the one who looks at what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LookStep {
    /// The looker was told what there is.
    Told,
    /// The looker was too slow: it is to be told anew what there is.
    Behind,
    /// So much has happened while it was put together what there is that the looker has missed some of it: it is
    /// to be told anew.
    Torn,
}

/// Tells somebody who looks.
pub(super) struct Teller {
    looker: Arc<Looker>,
    stream: AsyncStream,
    message: BytesMut,
}

impl Teller {
    /// Who tells this looker, at the other end of this stream; on the runtime in which it is called.
    pub(super) fn new(looker: Arc<Looker>, stream: Stream) -> io::Result<Self> {
        Ok(Self { looker, stream: AsyncStream::from_std(stream)?, message: BytesMut::new() })
    }

    /// The same stream, for another runtime.
    pub(super) fn stream(stream: &AsyncStream) -> io::Result<Stream> {
        socket::another(stream)
    }

    /// Tells each picture and, if that is wanted, in between what happens, until the looker has gone or there are
    /// no more pictures; otherwise one.
    pub(super) async fn tell(
        mut self,
        mut pictures: mpsc::Receiver<Picture>,
        says: mpsc::Sender<LookStep>,
        follow: bool,
    ) -> Result<(), CodecError> {
        let mut turn = None;
        // Whether it was said that it is behind, and nothing has come of it yet.
        let mut waits = false;
        loop {
            let said = tokio::select! {
                biased;
                picture = pictures.recv() => {
                    let Some(picture) = picture else { return Ok(()) };
                    let is_told = self.tell_picture(picture).await?;
                    if is_told && !follow {
                        return Ok(());
                    }
                    waits = !is_told;
                    Some(if is_told { LookStep::Told } else { LookStep::Torn })
                }
                () = self.looker.news(&mut turn), if follow && !waits => {
                    waits = self.looker.is_behind();
                    if !waits {
                        self.tell_events().await?;
                    }
                    waits.then_some(LookStep::Behind)
                }
            };
            turn = Some(self.looker.next_turn());
            if let Some(said) = said {
                // It ends before us only together with all that we have to do.
                _ = says.send(said).await;
            }
        }
    }

    /// Tells what there is, after what happened before. Whether it can be told: not if the looker has missed some
    /// of what belongs to it.
    pub(super) async fn tell_picture(&mut self, picture: Picture) -> Result<bool, CodecError> {
        self.tell_events().await?;
        let mut meanwhile = BytesMut::new();
        let Some(missed) = self.looker.end_events(&mut meanwhile)? else { return Ok(false) };
        self.put(&FromDaemon::LookBegins { missed, pids: pid_namespace() })?;
        let (mut part, mut count) = (BytesMut::new(), 0);
        let mut events = picture.in_order().into_iter().peekable();
        while let Some(event) = events.next() {
            event.encode(&mut part)?;
            count += 1;
            if part.len() >= PART || events.peek().is_none() {
                encode_look_events(count, [&*part], &mut self.message)?;
                self.send().await?;
                part.clear();
                count = 0;
            }
        }
        // Not yet told it is complete: to who hears it, this is what there was as well.
        self.message.unsplit(meanwhile);
        self.put(&FromDaemon::LookComplete)?;
        self.send().await?;
        Ok(true)
    }

    /// Tells what has happened, as far as it was not told.
    async fn tell_events(&mut self) -> Result<(), CodecError> {
        loop {
            let has_more = self.looker.put_next(&mut self.message)?;
            self.send().await?;
            if !has_more {
                return Ok(());
            }
        }
    }

    fn put(&mut self, message: &FromDaemon) -> Result<(), CodecError> {
        DaemonCodec::default().encode(message, &mut self.message)
    }

    /// Waits until all is sent, or the looker has gone. Others have their turn before that.
    async fn send(&mut self) -> Result<(), CodecError> {
        yield_now().await;
        while !self.message.is_empty() {
            match self.stream.try_write(&self.message) {
                Ok(sent) => self.message.advance(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stream.writable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
