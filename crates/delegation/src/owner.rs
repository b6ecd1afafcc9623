//! The client's side of a map.

use std::{
    fs::File,
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::{
    Slot,
    header::Header,
    layout,
    system::{self, Mapping, Watched},
};

/// A client's own file as memory that it shares with the broker.
///
/// A process that is forked from this one has no part in the map. There, this has no slots, and
/// every change does nothing.
///
/// If somebody truncates the file, the slots that are gone become zeros, which mean that the locks in
/// them are lost. For this, the process handles `SIGBUS` from the first map on. A signal that concerns
/// no map goes to the handler that was there before. If the program replaces the handler by its own,
/// the next access to a truncated map ends the process, and no other process.
///
/// This keeps the file open as long as it lives, even if all [`File`]s of it are dropped. So a lock
/// on the file by `flock` stays.
#[derive(Debug)]
pub struct OwnerMap {
    map: Watched,
    nonce: u64,
    /// How many slots there are, as the header says. The number grows only while `file` is locked.
    slots: AtomicU32,
    file: Mutex<File>,
}

impl OwnerMap {
    /// Makes a map of this file, which must be open for reading and writing. The file may have 16 bytes of the
    /// caller's, from byte 40 on, which the map leaves alone, and nothing else.
    ///
    /// # Errors
    ///
    /// If there is no room for the map: the room is reserved now, so that no later write lacks it.
    /// If there is more in the file. If the system cannot do this: `Unsupported` on all systems but
    /// Linux. After an error, the file is as it was.
    pub fn make(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let before = file.metadata()?.len();
        if before > layout::BEFORE {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file has a map"));
        }
        match Self::begin(&file, before) {
            Ok((map, nonce)) => {
                Ok(Self { map, nonce, slots: layout::FEWEST.into(), file: file.into() })
            }
            Err(error) => {
                // If this fails, the file stays without a map in it, which does no harm.
                let _ = file.set_len(before);
                Err(error)
            }
        }
    }

    fn begin(file: &File, before: u64) -> io::Result<(Watched, u64)> {
        system::make_room(file, before, layout::SMALLEST)?;
        let map = Watched::of_owner(Mapping::of_owner(file)?)?;
        let nonce = system::random_number()?;
        if let Some(header) = map.mapping().and_then(Mapping::header) {
            header.begin(nonce);
        }
        Ok((map, nonce))
    }

    #[inline]
    fn header(&self) -> Option<&Header> {
        self.map.mapping()?.header()
    }

    /// The number by which the broker recognises this map.
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Whether the broker has written this number into the map. If so, the broker sees the same
    /// memory as this process.
    pub fn is_confirmed(&self, broker: u64) -> bool {
        broker != 0 && self.header().map(Header::broker) == Some(broker)
    }

    /// How many slots there are.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.slots.load(Ordering::Acquire)
    }

    /// Makes more slots: twice as many, up to 1023. Returns how many there are now.
    ///
    /// # Errors
    ///
    /// If there is no room for the new slots. The existing slots stay.
    pub fn grow(&self) -> io::Result<u32> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(header) = self.header() else {
            return Err(io::Error::other("it is another process's"));
        };
        let (before, after) = (self.slots(), layout::more(self.slots()));
        // If somebody has truncated the file, only the broker would see the new slots.
        if file.metadata()?.len() < layout::bytes(before) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if after > before {
            system::make_room(&file, layout::bytes(before), layout::bytes(after))?;
            header.set_slots(after);
            self.slots.store(after, Ordering::Release);
        }
        Ok(after)
    }

    /// The slot with this number, if there is one. In a process that was forked from the one that
    /// has made the map, this returns `None`, so callers need not check for forks.
    #[inline]
    pub fn slot(&self, index: u32) -> Option<&Slot> {
        if index < self.slots() { self.map.mapping()?.slot(index) } else { None }
    }

    /// Records how many of the client's locks are in no slot.
    pub fn set_unmapped(&self, holds: u32) {
        if let Some(header) = self.header() {
            header.set_unmapped(holds);
        }
    }
}
