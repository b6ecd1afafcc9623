//! The steps of clients.

use navlock_delegation::{GivenBack, Released, Word};

use super::{At, Client, Complaint, Entry, Thread, ToBroker, ToClient, Work, World};

impl World {
    pub(super) fn run(&mut self, number: usize, thread: usize) -> Result<(), Complaint> {
        let client = &mut self.clients[number];
        let before = client.map.word;
        let at = client.threads[thread].at;
        client.threads[thread].at = match at {
            At::Start => match client.map.word(Word::take) {
                Some(count) => {
                    let token = client.map.base.0 + count;
                    let request = client.map.request;
                    client.note_hold(count)?;
                    if client.was_taken_back {
                        return Err("it was taken after it was taken back".into());
                    }
                    client.threads[thread].at =
                        At::Holding { request, by: Some(count), is_lost: false };
                    return self.note_token(token);
                }
                None => At::Refused,
            },
            At::Refused => match client.map.word(Word::give_back) {
                GivenBack::Freed => At::Finishing { request: client.map.request, then_ask: true },
                GivenBack::Recalled | GivenBack::Nothing => At::Asking { steals: false },
            },
            At::Finishing { request, then_ask } => {
                client.say(ToBroker::Finish { request });
                if then_ask { At::Asking { steals: false } } else { At::Start }
            }
            At::Asking { steals } => {
                client.last_request += 1;
                let request = client.last_request;
                let in_slot = client.map.word.is_free() && client.pending_in_slot.is_none();
                if in_slot {
                    client.map.request = request;
                    client.pending_in_slot = Some(request);
                } else {
                    // The request is counted before it is sent: its grant may be unread when the
                    // broker dies.
                    client.map.unmapped += 1;
                }
                client.say(ToBroker::Request { request, in_slot, steals });
                At::Waiting { request, in_slot }
            }
            At::Waiting { .. } => unreachable!("it waits"),
            At::Holding { request, by: None, is_lost } => {
                client.map.unmapped -= 1;
                client.threads[thread].holds_left -= 1;
                if is_lost { At::Start } else { At::Finishing { request, then_ask: false } }
            }
            At::Holding { request, by: Some(count), .. } => {
                client.threads[thread].holds_left -= 1;
                let was_held = before.is_held() && before.count() == count;
                let released = client.map.word(|word| word.release(count));
                let expected = match (was_held, before.is_recalled()) {
                    (true, false) => Released::Kept,
                    (true, true) => Released::Tell,
                    (false, _) => Released::Gone,
                };
                if released != expected {
                    return Err(format!("{released:?} instead of {expected:?}"));
                }
                let after = client.map.word;
                match released {
                    Released::Kept if !after.is_idle() => return Err("not kept".into()),
                    Released::Tell if !after.is_free() => return Err("not freed".into()),
                    Released::Gone if after != before => {
                        return Err("a stale release changes the word".into());
                    }
                    Released::Tell => At::Finishing { request, then_ask: false },
                    Released::Gone if before.is_lost() && before.count() == count => At::Clearing,
                    Released::Kept | Released::Gone => At::Start,
                }
            }
            At::Stale { count } => {
                client.threads[thread].holds_left -= 1;
                let released = client.map.word(|word| word.release(count));
                if released != Released::Gone || client.map.word != before {
                    return Err("a stale release changes the word".into());
                }
                At::Start
            }
            At::Clearing => {
                client.map.word(Word::clear);
                At::Start
            }
        };
        Ok(())
    }

    pub(super) fn receive(&mut self, number: usize) -> Result<(), Complaint> {
        let client = &mut self.clients[number];
        match client.inbox.pop_front() {
            Some(ToClient::Granted { request, is_lost }) => {
                client.holds_now(request, None, is_lost);
            }
            Some(ToClient::GrantedInSlot { request }) => client.granted_in_slot(request)?,
            Some(ToClient::End) | None => {}
        }
        Ok(())
    }

    pub(super) fn come_back(&mut self, number: usize) -> Result<(), Complaint> {
        let broker = self.broker.as_mut().expect("this happens with a broker only");
        let client = &mut self.clients[number];
        client.is_linked = true;
        broker.awaited.retain(|&awaited| awaited != number);
        broker.ended.retain(|&ended| ended != number);
        // The client could not tell any broker of its releases meanwhile.
        if broker.held.iter().any(|held| held.client == number && held.in_slot) {
            broker.work.insert(0, Work::Settle { client: number, steals: false });
        }
        for thread in 0..client.threads.len() {
            match client.threads[thread].at {
                At::Waiting { request, in_slot: true } if !client.map.word.is_free() => {
                    // The slot was granted, and the message of the grant is lost.
                    client.granted_in_slot(request)?;
                }
                At::Waiting { request, in_slot } => {
                    client.say(ToBroker::Request { request, in_slot, steals: false });
                }
                // The client claims this lock from the new broker.
                At::Holding { request, by: None, is_lost: false } => {
                    broker.held.push(Entry { client: number, request, in_slot: false });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Client {
    /// The connection ends. The client can still read messages that have arrived. All other
    /// messages are lost.
    pub(super) fn cut(&mut self) {
        if self.is_linked {
            self.is_linked = false;
            self.outbox.clear();
            self.inbox.push_back(ToClient::End);
        }
    }

    fn say(&mut self, message: ToBroker) {
        if self.is_linked {
            self.outbox.push_back(message);
        }
    }

    pub(super) fn terminate(&mut self, thread: usize) {
        if let At::Holding { request, by: Some(count), .. } = self.threads[thread].at {
            self.threads[thread].at = At::Stale { count };
            // The word may already be free, or another thread may hold by it.
            if self.map.word.count() == count {
                self.map.word(Word::clear);
                self.say(ToBroker::Finish { request });
            }
        }
    }

    /// Records that a thread begins to hold by the word.
    fn note_hold(&mut self, count: u64) -> Result<(), Complaint> {
        if count <= self.last_count {
            return Err(format!("hold {count} after {}", self.last_count));
        }
        self.last_count = count;
        Ok(())
    }

    fn granted_in_slot(&mut self, request: u8) -> Result<(), Complaint> {
        self.pending_in_slot = None;
        let count = self.map.word.count();
        self.note_hold(count)?;
        self.holds_now(request, Some(count), false);
        Ok(())
    }

    fn holds_now(&mut self, request: u8, by: Option<u64>, is_lost: bool) {
        let is_it = |thread: &&mut Thread| matches!(thread.at, At::Waiting { request: waiting, .. } if waiting == request);
        if let Some(thread) = self.threads.iter_mut().find(is_it) {
            thread.at = At::Holding { request, by, is_lost };
        }
    }

    /// Locks in no slot are lost: the lock of this request, or all of them.
    pub(super) fn lose(&mut self, request: Option<u8>) {
        for message in &mut self.inbox {
            if let ToClient::Granted { request: granted, is_lost } = message {
                *is_lost |= request.is_none_or(|request| request == *granted);
            }
        }
        for thread in &mut self.threads {
            if let At::Holding { request: held, by: None, is_lost } = &mut thread.at {
                *is_lost |= request.is_none_or(|request| request == *held);
            }
        }
    }
}
