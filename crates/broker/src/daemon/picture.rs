//! Pictures: all clients, agents, locks and requests, put together for a looker.
//!
//! The more locks and requests there are, the longer a picture takes. So it is made in several
//! turns of the daemon, and sessions have their turns in between. A picture shows one moment all
//! the same: the moment of its last turn. The events that happen between the turns are told as a
//! part of the picture, after its entries (see [`Journal`](navlock_core::host::Journal)). Each event tells
//! everything about its entry, so it does not matter whether the entry was read before the event or
//! after it.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use navlock_wire::LookEvent;

use super::{elsewhere::Elsewhere, lookers::Looker, shared_client::lock, state::Daemon};
use crate::clock;

/// At most this many clients, agents, locks and requests are read in one turn.
pub(super) const SLICE: usize = 50;

/// The entries of a picture, as they were read.
#[derive(Debug, Default)]
pub(super) struct Picture {
    /// The entries of each turn.
    parts: Vec<Vec<LookEvent>>,
    elsewhere: Arc<Elsewhere>,
}

impl Picture {
    /// The entries in the [order](Elsewhere::add_to) in which they can be applied. The more entries
    /// there are, the longer this takes.
    pub(super) fn in_order(self) -> Vec<LookEvent> {
        self.elsewhere.add_to(self.parts.into_iter().flatten().collect())
    }
}

impl Daemon {
    /// Makes a picture for this looker, with at most `slice` entries in one turn. Also returns for how long
    /// that has kept the sessions from their turns.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the looker is told nothing more until another picture is made.
    pub(super) async fn picture(
        &self,
        looker: &Looker,
        elsewhere: &Arc<Elsewhere>,
        slice: usize,
    ) -> (Picture, Duration) {
        let (mut turn, mut took) = (Instant::now(), Duration::ZERO);
        self.look_anew();
        // There is no `await` from here to the first turn, nor from the last turn to the end. So
        // the beginning and the end are one moment each.
        looker.begin_picture();
        let began = clock::now();
        let clients = self.all_clients();
        let (mut parts, mut part, mut room) = (Vec::new(), Vec::new(), slice);
        for client in clients {
            let mut place = None;
            loop {
                if room == 0 {
                    parts.push(mem::take(&mut part));
                    took += turn.elapsed();
                    self.next_turn.passes().await;
                    (turn, room) = (Instant::now(), slice);
                }
                let looks = (&looker.options, began);
                place = lock(&client).look(place, &mut room, looks, &mut part);
                if place.is_none() {
                    break;
                }
            }
        }
        parts.push(part);
        looker.end_picture();
        (Picture { parts, elsewhere: Arc::clone(elsewhere) }, took + turn.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fmt::Debug,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use navlock_core::{
        ClientId, Mode,
        host::{RequestId, RequestKind},
        look::{Entry, LookOptions, Overview},
    };

    use super::*;
    use crate::{convert, daemon::connected::ConnectedClient};

    fn enter(daemon: &Arc<Daemon>) -> ConnectedClient {
        let connected = daemon.enter(ClientId::random().to_bytes(), false, None);
        lock(&connected.client).open_agent(0, ClientId::random(), "app".to_owned()).unwrap();
        connected
    }

    fn request(connected: &ConnectedClient, id: u64, name: u64, mode: Mode) {
        let kind = RequestKind::Wait(mode);
        let name = name.to_string().as_str().try_into().unwrap();
        let id = RequestId::from_parts(u32::try_from(id).unwrap(), id);
        lock(&connected.client).request(0, id, name, kind, None).unwrap();
    }

    /// Makes a picture, and calls `meanwhile` between its turns. Also returns the events of the meantime,
    /// and the number of turns.
    fn taken(
        daemon: &Daemon,
        looker: &Looker,
        slice: usize,
        mut meanwhile: impl FnMut(),
    ) -> (Picture, Vec<LookEvent>, usize) {
        let (elsewhere, mut turns) = (Arc::default(), 0);
        let mut picture = pin!(daemon.picture(looker, &elsewhere, slice));
        loop {
            turns += 1;
            let polled = picture.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready((picture, _)) = polled {
                assert_eq!(looker.next(), (Vec::new(), false));
                let (missed, happened) = looker.go_on().unwrap();
                assert_eq!(missed, 0);
                return (picture, happened, turns);
            }
            meanwhile();
        }
    }

    /// The overview of a looker that was sent these.
    fn seen(picture: Picture, happened: Vec<LookEvent>) -> Overview {
        let mut overview = Overview::default();
        for events in [picture.in_order(), happened] {
            for event in convert::events(events) {
                overview.apply(&event);
            }
        }
        overview
    }

    /// The overview without its times, which differ between two conversions.
    fn shape(overview: &Overview) -> impl PartialEq + Debug + use<> {
        let ids = |entries: &[Entry]| {
            let ids = entries.iter().map(|entry| (entry.id, entry.mode, entry.token));
            ids.collect::<Vec<_>>()
        };
        let queues = overview.queues.iter().map(|(name, queue)| {
            (name.clone(), ids(&queue.held), ids(&queue.pending), ids(&queue.owned))
        });
        let clients: BTreeSet<_> = overview.clients.keys().copied().collect();
        let agents = overview.agents.iter().map(|(id, agent)| (*id, agent.client));
        (queues.collect::<Vec<_>>(), clients, agents.collect::<BTreeSet<_>>())
    }

    #[test]
    fn no_turn_of_the_daemon_looks_at_more_than_so_much() {
        let daemon = Daemon::of_memory(None);
        let looker = daemon.lookers.add(LookOptions::default());
        let clients: Vec<_> = (0..4).map(|_| enter(&daemon)).collect();
        for (at, client) in (0..).zip(&clients) {
            (0..700).for_each(|id| request(client, id, 700 * at + id, Mode::Exclusive));
        }
        let (picture, _, turns) = taken(&daemon, &looker, SLICE, || {});
        assert!(picture.parts.iter().all(|part| part.len() <= SLICE));
        assert_eq!(turns, picture.parts.len());
        let all = picture.parts.iter().map(Vec::len).sum::<usize>();
        // An entry for each client, for its agent, and for each lock that it holds.
        assert_eq!((all, turns), (4 * 702, (4 * 702_usize).div_ceil(SLICE)));
    }

    /// The client may not be told of the end for a while, or never, if its process is ending.
    #[test]
    fn nothing_of_an_agent_that_has_ended_is_shown() {
        let daemon = Daemon::of_memory(None);
        let looker = daemon.lookers.add(LookOptions::default());
        let connected = enter(&daemon);
        request(&connected, 0, 0, Mode::Exclusive);
        request(&connected, 1, 0, Mode::Exclusive);
        lock(&connected.client).close_agent(0).unwrap();
        let (picture, happened, _) = taken(&daemon, &looker, SLICE, || {});
        assert!(seen(picture, happened).queues.is_empty());
    }

    #[test]
    fn a_picture_made_in_many_turns_shows_the_state_at_the_end() {
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for round in 0..300 {
            let daemon = Daemon::of_memory(None);
            let looker = daemon.lookers.add(LookOptions::default());
            let (mut clients, mut ids) = (Vec::new(), 0);
            let mut change = || {
                for _ in 0..random(4) {
                    if clients.len() < 2 || random(20) == 0 {
                        clients.push((enter(&daemon), Vec::new()));
                    }
                    let chosen = usize::try_from(random(clients.len() as u64)).unwrap();
                    let (connected, theirs) = &mut clients[chosen];
                    match random(12) {
                        0..6 => {
                            ids += 1;
                            let mode = [Mode::Exclusive, Mode::Shared][usize::from(random(2) == 0)];
                            request(connected, ids, random(4), mode);
                            theirs.push(ids);
                        }
                        6..11 if !theirs.is_empty() => {
                            let at = usize::try_from(random(theirs.len() as u64)).unwrap();
                            let id = theirs.swap_remove(at);
                            let place = u32::try_from(id).unwrap();
                            lock(&connected.client).finish(RequestId::from_parts(place, id));
                        }
                        11 if clients.len() > 2 => drop(clients.swap_remove(chosen)),
                        _ => {}
                    }
                    // Clients that were granted locks hear of it, sooner or later.
                    for (connected, _) in clients.iter().filter(|_| random(3) > 0) {
                        let mut client = lock(&connected.client);
                        let context = Context::from_waker(Waker::noop());
                        while client.requests.poll_outcome(&context).is_ready() {}
                    }
                }
            };
            (0..20).for_each(|_| change());
            let (picture, happened, _) = taken(&daemon, &looker, 1 + round % 5, &mut change);
            let in_many = seen(picture, happened);
            let (picture, happened, turns) = taken(&daemon, &looker, usize::MAX, || {});
            assert!(happened.is_empty() && turns == 1);
            assert_eq!(shape(&in_many), shape(&seen(picture, happened)));
        }
    }
}
