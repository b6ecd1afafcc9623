//! The sockets of a history, as the broker sees them.

use std::{cell::RefMut, io, mem, time::Duration};

use navlock_platform::readiness::Found;

use super::{
    super::{
        super::process::Process,
        process_key, socket_key,
        sockets::{Socket, Sockets},
    },
    world::{Inner, World},
};

/// One socket.
pub(super) struct SimulatedSocket {
    world: World,
    client: usize,
}

impl SimulatedSocket {
    pub(super) fn new(world: &World, client: usize) -> Self {
        Self { world: world.clone(), client }
    }
}

impl Sockets for World {
    type Socket = SimulatedSocket;

    fn wait(&mut self, found: &mut Vec<Found>, within: impl FnOnce() -> Option<Duration>) {
        if within() != Some(Duration::ZERO) {
            self.look(found);
        }
    }

    fn ask(&mut self, found: &mut Vec<Found>) {
        self.look(found);
    }

    fn await_room(&self, socket: &SimulatedSocket, _: usize, awaits: bool) {
        let client = &mut self.get().clients[socket.client];
        client.awaits_room = awaits;
        // As with epoll, what there is already is told as well.
        client.has_news |= awaits && client.unread.len() < client.plan.room;
    }

    fn leave(&self, socket: &SimulatedSocket, _: usize) {
        let world = &mut *self.get();
        if world.lives(socket.client) && !world.clients[socket.client].is_broken {
            world.fail(&format!("the broker hangs up on client {}", socket.client));
        }
        let client = &mut world.clients[socket.client];
        client.leave();
    }

    fn await_end(&self, _: &Process, _: usize) {}

    fn leave_process(&self, _: &Process, _: usize) {}
}

impl World {
    /// The system takes the list of those that have something new, and looks at one after the other. It leaves out what
    /// was read since it came to the list.
    fn look(&self, found: &mut Vec<Found>) {
        let world = &mut *self.get();
        world.pass();
        if world.is_killed {
            return;
        }
        let joined = world.clients.iter_mut().enumerate().filter(|(_, of)| of.session.is_some());
        let listed = joined.filter_map(|(number, of)| {
            let (news, end) = (mem::take(&mut of.has_news), mem::take(&mut of.process_has_ended));
            (news || end).then_some((number, end))
        });
        let mut listed: Vec<_> = listed.collect();
        while !listed.is_empty() {
            // The broker is kept from its CPU now and then.
            if world.random.one_in(4) {
                world.meanwhile += world.random.below(8);
                world.go_on();
            }
            let (number, end) = listed.swap_remove(world.random.below(listed.len()));
            let of = &world.clients[number];
            let Some(key) = of.session else { continue };
            found.extend(end.then_some(Found::unsure(process_key(key))));
            let has_room = of.awaits_room && of.unread.len() < of.plan.room;
            let has_bytes = !of.sent_and_unread.is_empty();
            if has_bytes || of.has_ended || has_room {
                let (key, has_ended) = (socket_key(key), of.has_ended);
                found.push(Found { key, has_ended, is_sure: has_bytes && !has_room });
            }
        }
        // So it is before it reads.
        if world.random.one_in(2) {
            world.meanwhile += world.random.below(12);
            world.go_on();
        }
    }
}

impl SimulatedSocket {
    /// What the system does to any call.
    fn call(&self) -> io::Result<RefMut<'_, Inner>> {
        let mut world = self.world.get();
        world.pass();
        if world.is_killed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if world.interrupts && world.random.one_in(8) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(world)
    }
}

impl Socket for SimulatedSocket {
    fn read(&self, into: &mut [u8]) -> io::Result<(usize, bool)> {
        let mut world = self.call()?;
        let client = &mut world.clients[self.client];
        let bytes = client.sent_and_unread.len().min(into.len());
        if bytes == 0 && !client.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        into[..bytes].copy_from_slice(&client.sent_and_unread.split_to(bytes));
        Ok((bytes, bytes < into.len()))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.call()?;
        let client = &mut world.clients[self.client];
        if client.has_ended {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = client.plan.room.saturating_sub(client.unread.len()).min(bytes.len());
        client.is_full = room == 0;
        client.was_full |= room == 0;
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        for message in client.take(&bytes[..room]) {
            world.hear(self.client, message);
        }
        Ok(room)
    }

    fn shut_down(&self) {
        let client = &mut self.world.get().clients[self.client];
        client.has_ended = true;
        client.has_news = true;
    }
}
