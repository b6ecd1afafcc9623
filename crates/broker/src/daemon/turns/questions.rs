//! The questions in a turn: snapshots that are a cut.
//!
//! A snapshot that shows something of an agent must show all that the agent had done before. A client that owns
//! names goes on in its map without a message. So the words of the maps are read, then all messages that were sent
//! before that are read and acted on, and then the words are read again. If they have not changed, the snapshot
//! between the two is what was so when they were read first.

use super::{super::consistent::TRIES, State, caught, sockets::Sockets, times::Frame};

/// How many questions are answered in one turn. Those who lock wait for as many.
const MOST: usize = 64;

impl<S: Sockets> State<S> {
    /// Takes in a question, which is answered when all that was sent before it was acted on.
    pub(super) fn open_question(&mut self, Frame { key, message, .. }: Frame) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        match caught(|| connection.session.open_question(message)) {
            Ok(()) if connection.session.goes_on_asking() => self.asking.push_back(key),
            Ok(()) => self.wanted.want(key),
            Err(end) => self.finish(key, end),
        }
    }

    /// Answers the questions of this session now, because its client has said something after them, of which they
    /// see nothing.
    pub(super) fn answer_in_place(&mut self, key: usize) {
        for _ in 0..MOST {
            let Some(connection) = self.connections.get_mut(key) else { return };
            match caught(|| connection.session.answer_question(None)) {
                Ok(true) => {}
                Ok(false) => return,
                Err(end) => return self.finish(key, end),
            }
        }
    }

    /// Answers questions, one of each session in turn.
    pub(super) fn answer_questions(&mut self) {
        for _ in 0..MOST {
            let Some(key) = self.asking.pop_front() else { return };
            self.answer_question(key);
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.session.asks_no_more();
            if connection.session.goes_on_asking() {
                self.asking.push_back(key);
            }
        }
    }

    fn answer_question(&mut self, key: usize) {
        for tries in 0..=TRIES {
            let Some(connection) = self.connections.get(key) else { return };
            let Some(question) = connection.session.question() else { return };
            let before = connection.session.answered();
            let words = self.daemon.words_for(question).filter(|_| tries < TRIES);
            if words.is_some() {
                self.read();
                self.act_on_messages();
            }
            let Some(connection) = self.connections.get_mut(key) else { return };
            self.wanted.want(key);
            // It may have been answered in its place meanwhile.
            if connection.session.answered() != before {
                return;
            }
            match caught(|| connection.session.answer_question(words)) {
                Ok(true) => return,
                Ok(false) => {}
                Err(end) => return self.finish(key, end),
            }
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{
        cell::RefCell,
        io::{self, ErrorKind},
        mem,
        pin::pin,
        rc::Rc,
        sync::Arc,
        task::Waker,
        time::Duration,
    };

    use bytes::BytesMut;
    use futures_util::FutureExt;
    use navlock_core::{ClientId, Mode, host::RequestKind};
    use navlock_delegation::{OwnerMap, Released};
    use navlock_engine::RequestId;
    use navlock_platform::readiness::Found;
    use navlock_wire::{FromDaemon, Sent, ToDaemon, decode, encode};

    use super::{
        super::{
            super::{process::Process, session::Session, shared_client::lock, state::Daemon},
            socket_key,
            sockets::Socket,
            times::Times,
            wanted::Wanted,
        },
        *,
    };
    use crate::{Place, client_files::ClientFiles, clock};

    const OWNER: usize = 0;
    const ASKER: usize = 1;

    /// Two sockets, and what the owner does as soon as the asker's socket is read.
    struct Two(Rc<RefCell<Inner>>);

    struct Wire(usize, Rc<RefCell<Inner>>);

    type Act = Box<dyn FnOnce(&mut Inner)>;

    #[derive(Default)]
    struct Inner {
        to_broker: [BytesMut; 2],
        to_asker: BytesMut,
        ready: Vec<usize>,
        then: Option<Act>,
    }

    impl Inner {
        fn say(&mut self, client: usize, message: &ToDaemon) {
            let sent = Sent { at: clock::now(), message };
            encode(&sent, &mut self.to_broker[client]).unwrap();
            self.ready.push(socket_key(client));
        }
    }

    impl Sockets for Two {
        type Socket = Wire;

        fn wait(&mut self, found: &mut Vec<Found>, _: impl FnOnce() -> Option<Duration>) {
            let mut ready = mem::take(&mut self.0.borrow_mut().ready);
            ready.dedup();
            found
                .extend(ready.into_iter().map(|key| Found { is_sure: true, ..Found::unsure(key) }));
        }

        fn ask(&mut self, found: &mut Vec<Found>) {
            found.extend(self.0.borrow_mut().ready.drain(..).map(Found::unsure));
        }

        fn await_room(&self, _: &Wire, _: usize, _: bool) {}
        fn leave(&self, _: &Wire, _: usize) {}
        fn await_end(&self, _: &Process, _: usize) {}

        fn leave_process(&self, _: &Process, _: usize) {}
    }

    impl Socket for Wire {
        fn read(&self, into: &mut [u8]) -> io::Result<(usize, bool)> {
            let inner = &mut *self.1.borrow_mut();
            let bytes = mem::take(&mut inner.to_broker[self.0]);
            if bytes.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            into[..bytes.len()].copy_from_slice(&bytes);
            if let Some(then) = inner.then.take_if(|_| self.0 == ASKER) {
                then(inner);
            }
            Ok((bytes.len(), true))
        }

        fn write(&self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == ASKER {
                self.1.borrow_mut().to_asker.extend_from_slice(bytes);
            }
            Ok(bytes.len())
        }

        fn shut_down(&self) {}
    }

    #[test]
    fn a_snapshot_that_shows_a_name_taken_without_a_message_shows_what_was_asked_for_before() {
        let directory = tempfile::tempdir().unwrap();
        let files = ClientFiles::of(&Place::at(directory.path().join("sock")));
        let own = files.register([1; 16]).unwrap();
        let map = Arc::new(OwnerMap::make(own.file()).unwrap());
        let daemon = Daemon::of_memory(Some(files));
        let kind = RequestKind::Wait(Mode::Exclusive);
        let [first, second] = [1, 2].map(|serial| RequestId::from_parts(1, serial));
        let owner = daemon.enter([1; 16], false, None);
        assert!(owner.map(map.nonce()).is_some());
        let mut client = lock(&owner.client);
        client.open_agent(0, ClientId::random(), "app".to_owned()).unwrap();
        client.request(0, first, "owned".try_into().unwrap(), kind, Some(0)).unwrap();
        drop(client);
        let word = || map.slot(0).unwrap().word();
        assert_eq!(word().release(word().look().count()), Released::Kept);
        assert!(!word().look().is_held());

        let inner = Rc::new(RefCell::new(Inner::default()));
        let wanted = Wanted::new(Waker::noop().clone());
        let mut state = State::new(Arc::clone(&daemon), wanted, Two(Rc::clone(&inner)));
        for (number, connected) in
            [owner, daemon.enter([2; 16], false, None)].into_iter().enumerate()
        {
            let session = Session::new(connected, Arc::clone(&daemon));
            let wire = Wire(number, Rc::clone(&inner));
            state.enter(session, None, (wire, BytesMut::new()), Times::new(Some(0)));
        }
        state.turn();

        let query = ToDaemon::Query { query: 1, bucket: "app".into() };
        inner.borrow_mut().say(ASKER, &query);
        let taken = Arc::clone(&map);
        inner.borrow_mut().then = Some(Box::new(move |inner| {
            let name = "asked".try_into().unwrap();
            let ask = ToDaemon::Request { agent: 0, request: second, name, kind, slot: None };
            inner.say(OWNER, &ask);
            assert!(taken.slot(0).unwrap().word().take().is_some());
        }));
        state.turn();
        let told = decode::<FromDaemon>(&mut inner.borrow_mut().to_asker).unwrap();
        let Some(FromDaemon::Snapshot { mut held, .. }) = told else { panic!("{told:?}") };
        held.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<_> = held.iter().map(|lock| lock.name.to_string()).collect();
        assert_eq!(names, ["asked", "owned"]);
    }

    #[test]
    fn who_waits_for_a_turn_waits_for_all_that_one_client_alone_has_sent_before() {
        for is_awaited in [false, true] {
            let daemon = Daemon::of_memory(None);
            daemon.next_turn.begin(Waker::noop().clone());
            let inner = Rc::new(RefCell::new(Inner::default()));
            let wanted = Wanted::new(Waker::noop().clone());
            let mut state = State::new(Arc::clone(&daemon), wanted, Two(Rc::clone(&inner)));
            let connected = daemon.enter([1; 16], false, None);
            let client = Arc::clone(&connected.client);
            let session = Session::new(connected, Arc::clone(&daemon));
            let wire = Wire(OWNER, Rc::clone(&inner));
            state.enter(session, None, (wire, BytesMut::new()), Times::new(Some(0)));
            state.turn();
            lock(&client).open_agent(0, ClientId::random(), "app".to_owned()).unwrap();
            let ask = |serial| {
                let (request, name) = (RequestId::from_parts(1, serial), "db".try_into().unwrap());
                let kind = RequestKind::Wait(Mode::Exclusive);
                let ask = ToDaemon::Request { agent: 0, request, name, kind, slot: None };
                inner.borrow_mut().say(OWNER, &ask);
            };
            ask(1);
            state.wait(|| None);
            state.turn();
            // From here on it is known that nobody else has said anything.
            ask(2);
            ask(3);
            let mut turn = pin!(daemon.next_turn.passes());
            assert!(!is_awaited || (&mut turn).now_or_never().is_none());
            state.wait(|| None);
            assert_eq!(daemon.next_turn.take().len(), usize::from(is_awaited));
            state.turn();
            assert_eq!(lock(&client).requests.count(), (1, 1 + usize::from(is_awaited)));
        }
    }
}
