//! The client of the simulation: a client as it is, but for its thread. The simulation says when somebody reads, when
//! the end of the connection is noticed, and when there is a new one.

use std::sync::Arc;

use bytes::BytesMut;
use navlock_core::host::{Backend, Ticket};
use navlock_platform::socket::Stream;
use navlock_wire::{ClientKey, Query, ToDaemon};

use super::{
    backend::BrokerBackend,
    client_table::State,
    connection::{Connection, Shared, writer::never_wait},
    handshake::Welcomed,
    owned::LANE,
    reader::{Reader, WakePipe},
};
use crate::{
    Place,
    client_files::{ClientFiles, Registration},
};

/// A client with one bucket.
pub(crate) struct SimulatedClient {
    connection: Arc<Connection>,
    backend: BrokerBackend,
    /// Where the thread would be woken.
    _wake_end: Stream,
}

impl SimulatedClient {
    /// A client of the broker at this place.
    pub(crate) fn new(place: &Place, key: ClientKey, bucket: &str, delegates: bool) -> Self {
        never_wait();
        let wake_pipe = || WakePipe::new().expect("there are descriptors");
        let (path, files) = (place.socket().to_owned(), ClientFiles::of(place));
        let (waking_end, wake_end) = wake_pipe().split();
        let shared = Shared::new(path, files, key, waking_end, wake_pipe(), false, delegates);
        let shared = Arc::new(shared.expect("there is memory"));
        let connection = Arc::new(Connection::new(shared));
        let backend = BrokerBackend::new(Arc::clone(&connection), bucket);
        Self { connection, backend, _wake_end: wake_end }
    }

    fn shared(&self) -> &Shared {
        self.connection.shared()
    }

    pub(crate) fn backend(&self) -> &impl Backend {
        &self.backend
    }

    /// Begins a connection over this socket, and claims what it has.
    pub(crate) fn connect(&self, socket: Stream) {
        socket.set_nonblocking(true).expect("it is a socket");
        let welcomed = Welcomed { reader: Reader::new(socket, BytesMut::new()), reach: None };
        assert!(self.shared().connected(welcomed).is_ok(), "a file can be made");
    }

    /// Does what its thread does: reads what has come, and sees to its map.
    pub(crate) fn read(&self) {
        self.shared().read_all();
        self.shared().see_to_map();
    }

    /// Its thread notices that the connection has ended.
    pub(crate) fn notice_end(&self) {
        self.shared().disconnected();
        self.shared().end_given_up();
    }

    /// Its thread looks, while there is no connection, whether a broker has given the client up.
    pub(crate) fn look(&self) {
        self.shared().watch_held();
    }

    /// Asks a question, to which nobody waits for the answer.
    pub(crate) fn ask(&self, question: impl FnOnce(Query) -> ToDaemon) -> Query {
        self.connection.change(|table| {
            let query = table.ask(question);
            table.questions.remove(query);
            query
        })
    }

    /// Whether it can own names.
    pub(crate) fn can_own(&self) -> bool {
        self.connection.table().can_own()
    }

    /// Whether the lock of this ticket is released by a change of a word.
    pub(crate) fn is_in_map(&self, ticket: Ticket) -> bool {
        ticket.lane == LANE || self.connection.table().is_in_slot(ticket.id)
    }

    /// Whether whoever asks now would learn that this lock is lost, though no message has said so.
    pub(crate) fn would_lose(&self, ticket: Ticket) -> bool {
        if self.is_given_up() {
            return true;
        }
        if ticket.lane == LANE {
            return !self.shared().owned.holds(ticket.id);
        }
        let mut table = self.connection.table();
        let seen = table.seen_lost(ticket.id);
        match table.state(ticket.id) {
            Some(State::Held(..)) => seen.is_some(),
            Some(State::Pending(_)) => table.is_lost_unread(ticket.id),
            _ => true,
        }
    }

    /// Whether it has lost what it had, and learns that when it looks.
    pub(crate) fn is_given_up(&self) -> bool {
        self.shared().has_hung_up() && !self.stands()
    }

    /// Whether no broker has given it up, as its file says.
    pub(crate) fn stands(&self) -> bool {
        self.shared().stands_for_certain()
    }

    /// Its process is killed: its file is there, and nobody has it locked.
    pub(crate) fn die(self) {
        self.shared().registration().take().into_iter().for_each(Registration::abandon);
    }
}
