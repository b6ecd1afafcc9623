//! Ends of a connection whose messages a test sends and reads itself.

use std::{
    fmt::Debug,
    io::{ErrorKind, Read, Write},
    marker::PhantomData,
};

use bytes::BytesMut;
use navlock_broker::Place;
use navlock_core::{FencingToken, ResourceName};
use navlock_engine::RequestId;
use navlock_platform::{
    clock,
    socket::{Listener, Stream},
};
use navlock_wire::{BootTime, FromDaemon, Sent, ToDaemon, VERSION, decode, encode};

use crate::daemon::LONG;

/// One end of a connection, which reads messages of the type `In`.
pub(crate) struct End<In> {
    pub(crate) stream: Stream,
    received: BytesMut,
    hears: PhantomData<In>,
}

/// What an end hears.
pub(crate) trait Heard: Debug + Sized {
    /// What it says.
    type Said;
    fn decode(bytes: &mut BytesMut) -> Option<Self>;
    fn encode(said: &Self::Said, bytes: &mut BytesMut);
}

impl Heard for FromDaemon {
    type Said = ToDaemon;

    fn decode(bytes: &mut BytesMut) -> Option<Self> {
        decode::<FromDaemon>(bytes).unwrap()
    }

    fn encode(message: &ToDaemon, bytes: &mut BytesMut) {
        let sent = Sent { at: clock::monotonic(), message };
        encode(&sent, bytes).unwrap();
    }
}

impl Heard for ToDaemon {
    type Said = FromDaemon;

    fn decode(bytes: &mut BytesMut) -> Option<Self> {
        decode::<Sent>(bytes).unwrap().map(|sent| sent.message)
    }

    fn encode(message: &FromDaemon, bytes: &mut BytesMut) {
        encode(message, bytes).unwrap();
    }
}

/// The client's end of a connection.
pub(crate) type Raw = End<FromDaemon>;

/// The daemon's end of a connection.
pub(crate) type RawDaemon = End<ToDaemon>;

impl<In: Heard> End<In> {
    /// The end of a connection that was made already.
    pub(crate) fn new(stream: Stream) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self { stream, received: BytesMut::new(), hears: PhantomData }
    }

    /// Sends these messages, in one piece.
    pub(crate) fn say(&mut self, messages: &[In::Said]) {
        let mut bytes = BytesMut::new();
        for message in messages {
            In::encode(message, &mut bytes);
        }
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next message.
    pub(crate) fn receive(&mut self) -> In {
        loop {
            if let Some(message) = In::decode(&mut self.received) {
                return message;
            }
            let mut bytes = [0; 512];
            let length = match self.stream.read(&mut bytes) {
                // Interrupted by a signal that was meant for another test.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap(),
            };
            assert_ne!(length, 0, "the other end hung up");
            self.received.extend_from_slice(&bytes[..length]);
        }
    }

    /// Reads messages until `found` finds something. Returns it, and all messages before it.
    pub(crate) fn receive_until<T>(&mut self, found: impl Fn(&In) -> Option<T>) -> (T, Vec<In>) {
        let mut before = Vec::new();
        loop {
            let message = self.receive();
            if let Some(found) = found(&message) {
                return (found, before);
            }
            before.push(message);
        }
    }
}

impl Raw {
    /// Connects to the daemon at this place, and sends these messages.
    pub(crate) fn connect(place: &Place, messages: &[ToDaemon]) -> Self {
        let mut raw = Self::new(Stream::connect(place.socket()).unwrap());
        raw.say(messages);
        raw
    }
}

impl RawDaemon {
    /// Welcomes the client that connects next, to a daemon with this reach.
    pub(crate) fn welcome(listener: &Listener, reach: Option<&str>) -> Self {
        let mut end = Self::new(listener.accept().unwrap().0);
        end.receive_until(|message| matches!(message, ToDaemon::Hello { .. }).then_some(()));
        end.say(&[match reach {
            Some(reach) => FromDaemon::Welcome { version: VERSION, reach: Some(reach.to_owned()) },
            None => FromDaemon::Welcome { version: VERSION, reach: None },
        }]);
        end
    }

    /// Reads messages until the client asks for this name.
    pub(crate) fn asked_for(&mut self, wanted: &str) -> RequestId {
        let of = |asked: &ResourceName| asked.as_str() == Some(wanted);
        let (request, _) = self.receive_until(|message| match message {
            ToDaemon::Request { request, name, .. } if of(name) => Some(*request),
            _ => None,
        });
        request
    }

    /// Grants a lock to the first agent, whose term ends at `ends`.
    pub(crate) fn grant(&mut self, request: RequestId, ends: BootTime) {
        let token = FencingToken::new(7);
        self.say(&[
            FromDaemon::Term { agent: 0, ends, bounds: None },
            FromDaemon::Granted { request, token, in_slot: false },
        ]);
    }

    /// Reads messages until the client releases this lock.
    pub(crate) fn until_finished(&mut self, lock: RequestId) {
        self.receive_until(|message| match message {
            ToDaemon::Finish { request } if *request == lock => Some(()),
            _ => None,
        });
    }
}
