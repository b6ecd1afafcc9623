//! Sends lookers what they want to see. This is done on the lookers' thread, so that no client that
//! takes a lock waits until messages to lookers are encoded and sent, and their readers are woken.

use std::{io, sync::Arc};

use bytes::BytesMut;
use navlock_core::{host::Journal, look::Event};
use navlock_platform::socket::Stream;
use navlock_wire::{FromDaemon, LookEvent, Moment, encode};
use tokio::sync::mpsc;

use super::{
    answers::take, awaited::Socket, guests::View, lookers::Looker, picture::Picture,
    session_ends::End, stream::send, tasks::yield_now,
};
use crate::pid_namespace;

/// What a [`Teller`] reports to the task that takes pictures for the looker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LookStep {
    /// The looker was sent the picture.
    Told,
    /// The looker was too slow, and needs a new picture.
    Behind,
    /// The looker has missed some of the many events that happened while the picture was made, and needs
    /// another picture.
    Torn,
}

/// Sends to one looker.
pub(super) struct Teller {
    looker: Arc<Looker>,
    socket: Socket,
    message: BytesMut,
    /// What the looker may see, if that is not all.
    view: Option<View>,
}

impl Teller {
    /// A teller for this looker, which is at the other end of this stream. To be called on the
    /// thread that sends.
    pub(super) fn new(looker: Arc<Looker>, stream: Stream, view: Option<View>) -> io::Result<Self> {
        let (socket, message) = (Socket::new(stream)?, BytesMut::new());
        Ok(Self { looker, socket, message, view })
    }

    /// Sends one picture. If `follow` is set, sends each picture and in between all events, until
    /// the looker has gone or no more pictures come.
    pub(super) async fn tell(
        mut self,
        mut pictures: mpsc::Receiver<Picture>,
        says: mpsc::Sender<LookStep>,
        follow: bool,
    ) -> Result<(), End> {
        let mut turn = None;
        // Whether the teller has reported that the looker needs a picture, and no picture has come
        // yet.
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
                // The receiver is dropped only when the looker's connection has ended, and that end
                // also ends this task.
                _ = says.send(said).await;
            }
        }
    }

    /// Sends the events from before the picture, and then the picture. Returns whether the picture was
    /// sent, which it is not if the looker has missed events that belong to it.
    pub(super) async fn tell_picture(&mut self, picture: Picture) -> Result<bool, End> {
        self.tell_events().await?;
        let Some((missed, meanwhile)) = self.looker.go_on() else { return Ok(false) };
        self.put(&FromDaemon::LookBegins { missed, pids: pid_namespace() })?;
        // The events of the meantime come before the message that ends the picture, so the looker sees them
        // as a part of the picture.
        for all in [picture.in_order(), meanwhile] {
            let mut all = all.into_iter();
            while all.len() > 0 {
                let mut room = Journal::<Moment>::PART;
                self.put_events(take(&mut all, &mut room, Event::size))?;
                self.send().await?;
            }
        }
        self.put(&FromDaemon::LookComplete)?;
        self.send().await?;
        Ok(true)
    }

    /// Sends the events that were not sent yet.
    async fn tell_events(&mut self) -> Result<(), End> {
        loop {
            let (events, has_more) = self.looker.next();
            self.put_events(events)?;
            self.send().await?;
            if !has_more {
                return Ok(());
            }
        }
    }

    fn put_events(&mut self, mut events: Vec<LookEvent>) -> Result<(), End> {
        if let Some(view) = &mut self.view {
            for event in &mut events {
                view.veil(&mut event.change);
            }
        }
        if events.is_empty() { Ok(()) } else { self.put(&FromDaemon::LookEvents { events }) }
    }

    fn put(&mut self, message: &FromDaemon) -> Result<(), End> {
        Ok(encode(message, &mut self.message)?)
    }

    /// Waits until everything is sent, or the looker has gone. Other tasks of the thread have their
    /// turn first.
    async fn send(&mut self) -> Result<(), End> {
        yield_now().await;
        send(&self.socket, &mut self.message).await
    }
}
