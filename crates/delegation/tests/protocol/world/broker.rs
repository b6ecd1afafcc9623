//! The steps of the broker.

use navlock_delegation::{Recalled, Word};

use super::{Broker, Complaint, Entry, ToBroker, ToClient, Work, World};

impl World {
    pub(super) fn serve(&mut self, client: usize) {
        let Some(message) = self.clients[client].outbox.pop_front() else {
            self.broker().ended.push(client);
            self.broker().work = vec![Work::Forget(client), Work::Revoke(client)];
            return;
        };
        let broker = self.broker();
        match message {
            ToBroker::Request { request, in_slot, steals } => {
                let entry = Entry { client, request, in_slot };
                broker.work = vec![Work::Request(entry, steals), Work::Raise];
                broker.settle(steals);
            }
            ToBroker::Finish { request } => {
                let is_it = |held: &Entry| (held.client, held.request) == (client, request);
                if let Some(index) = broker.held.iter().position(is_it) {
                    let entry = broker.held.remove(index);
                    broker.work.push(Work::Next);
                    broker.work.extend(entry.in_slot.then_some(Work::Revoke(client)));
                }
            }
        }
    }

    pub(super) fn work(&mut self) -> Result<(), Complaint> {
        let now = self.now.0;
        let broker = self.broker.as_mut().expect("this happens with a broker only");
        match broker.work.pop().expect("there is something to do") {
            Work::Inherit(number) => {
                let client = &mut self.clients[number];
                client.was_taken_back = true;
                if client.map.unmapped > 0 {
                    broker.awaited.push(number);
                }
                if client.map.word(Word::recall) == Recalled::Held {
                    let request = client.map.request;
                    broker.held.push(Entry { client: number, request, in_slot: true });
                }
            }
            Work::Settle { client: number, steals } => {
                let client = &mut self.clients[number];
                let take_back = if steals { Word::steal } else { Word::recall };
                client.was_taken_back = true;
                let is_free = client.map.word(take_back) == Recalled::Free;
                if is_free || steals {
                    broker.held.retain(|held| !(held.client == number && held.in_slot));
                }
                if is_free {
                    broker.work.push(Work::Next);
                }
            }
            Work::Revoke(client) => {
                let _ = self.clients[client].map.word(Word::revoke);
            }
            Work::Forget(client) => {
                broker.awaited.retain(|&awaited| awaited != client);
                broker.held.retain(|held| held.client != client);
                broker.queue.retain(|waiting| waiting.client != client);
                self.clients[client].lose(None);
                broker.work.push(Work::Next);
            }
            Work::Raise => broker.token.0 = broker.token.0.max(now),
            Work::Request(entry, true) if broker.held.iter().any(|held| held.in_slot) => {
                // The engine granted another request while the broker settled the holds before it.
                broker.work.push(Work::Request(entry, true));
                broker.settle(true);
            }
            Work::Request(entry, true) => {
                for victim in std::mem::take(&mut broker.held) {
                    self.clients[victim.client].lose(Some(victim.request));
                }
                broker.grant(entry, true);
            }
            Work::Request(entry, false) if broker.held.is_empty() && broker.queue.is_empty() => {
                broker.grant(entry, false);
            }
            Work::Request(entry, false) => broker.queue.push_back(entry),
            Work::Next => {
                if broker.held.is_empty() {
                    if let Some(entry) = broker.queue.pop_front() {
                        broker.grant(entry, true);
                    }
                }
            }
            Work::Grant(entry, recalled) => {
                let token = broker.token.0;
                let client = &mut self.clients[entry.client];
                if entry.in_slot {
                    let count = client.map.word.count() + 1;
                    client.map.base.0 = token - count;
                    client.was_taken_back = recalled;
                    if client.map.word(|word| word.grant(recalled)) != Some(count) {
                        return Err("a slot that was asked for is not free".into());
                    }
                }
                return self.note_token(token);
            }
            Work::Tell(Entry { client, request, in_slot }) => {
                let message = if in_slot {
                    ToClient::GrantedInSlot { request }
                } else {
                    ToClient::Granted { request, is_lost: false }
                };
                if self.clients[client].is_linked {
                    self.clients[client].inbox.push_back(message);
                }
            }
        }
        Ok(())
    }
}

impl Broker {
    /// Takes back all words for the name.
    fn settle(&mut self, steals: bool) {
        let owners = self.held.iter().filter(|held| held.in_slot);
        self.work.extend(owners.map(|held| Work::Settle { client: held.client, steals }));
    }

    /// The engine grants the lock to this request.
    fn grant(&mut self, entry: Entry, recalled: bool) {
        self.held.push(entry);
        self.token.0 += 1;
        self.work.extend([Work::Tell(entry), Work::Grant(entry, recalled)]);
    }
}
