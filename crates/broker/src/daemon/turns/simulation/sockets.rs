//! The sockets of a history, as the broker sees them.

use std::{cell::RefMut, io, iter::repeat_n, mem};

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

    fn wait(&mut self, keys: &mut Vec<usize>, is_due: impl FnOnce() -> bool) -> bool {
        let world = &mut *self.get();
        if is_due() || world.is_killed {
            return false;
        }
        world.pass();
        let joined = world.clients.iter_mut().enumerate().filter(|(_, of)| of.session.is_some());
        let listed = joined.filter_map(|(number, of)| {
            let (news, end) = (mem::take(&mut of.has_news), mem::take(&mut of.process_has_ended));
            (news || end).then_some((number, end))
        });
        let mut listed: Vec<_> = listed.collect();
        let mut is_readable = false;
        // The system looks at one after the other, and leaves out what was read since it came to the list.
        while !listed.is_empty() {
            let (number, end) = listed.swap_remove(world.random.below(listed.len()));
            let of = &world.clients[number];
            let Some(key) = of.session else { continue };
            keys.extend(end.then_some(process_key(key)));
            let has_bytes = !of.sent_and_unread.is_empty();
            is_readable |= has_bytes;
            let has_room = of.awaits_room && of.unread.len() < of.plan.room;
            if has_bytes || of.has_ended || has_room {
                keys.extend(repeat_n(socket_key(key), if of.has_ended { 2 } else { 1 }));
            }
            // The broker is kept from its CPU now and then.
            if world.random.one_in(2) {
                world.meanwhile += world.random.below(8);
                world.go_on();
            }
        }
        is_readable && keys.len() == 1
    }

    fn ask(&mut self, keys: &mut Vec<usize>) {
        let world = &mut *self.get();
        world.pass();
        let mut ready = Vec::new();
        for client in world.clients.iter_mut().filter(|_| !world.is_killed) {
            let Some(key) = client.session else { continue };
            if mem::take(&mut client.has_news) {
                let times = 1;
                ready.extend(repeat_n(socket_key(key), times));
            }
            if mem::take(&mut client.process_has_ended) {
                ready.push(process_key(key));
            }
        }
        while !ready.is_empty() {
            let next = world.random.below(ready.len());
            keys.push(ready.swap_remove(next));
        }
    }

    fn await_room(&self, socket: &SimulatedSocket, _: usize, awaits: bool) {
        let client = &mut self.get().clients[socket.client];
        client.awaits_room = awaits;
        // As with epoll, what there is already is told as well.
        client.has_news |= awaits && client.unread.len() < client.plan.room;
    }

    fn leave(&self, socket: &SimulatedSocket, _: usize) {
        let world = &mut *self.get();
        if world.lives(socket.client) {
            world.fail(&format!("the broker hangs up on client {}", socket.client));
        }
        let client = &mut world.clients[socket.client];
        (client.has_news, client.process_has_ended) = (false, false);
    }

    fn await_end(&self, _: &Process, _: usize) {}

    fn leave_process(&self, _: &Process, _: usize) {}
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
