//! The broker's side of a map.

use std::{fs::File, io};

use crate::{
    Slot,
    header::{self, Header},
    system::{Mapping, Watched},
};

/// A client's file, as the broker sees it: as something that anybody may have written.
///
/// Nothing that is done to the file harms the process that has this. Where the file has no bytes, because
/// somebody has truncated it or the disk has no room for them, the first access finds zeros, which mean that
/// nothing is held; from then on the map [is broken](Self::is_broken), and has no slots.
#[derive(Debug)]
pub struct BrokerMap(Watched);

impl BrokerMap {
    /// Maps a client's file, which must be open for reading and writing, if it is a map.
    ///
    /// The file need not stay open.
    ///
    /// # Errors
    ///
    /// If the system cannot map it.
    pub fn open(file: &File) -> io::Result<Option<Self>> {
        let about = file.metadata()?;
        if !about.is_file() || about.len() < header::SMALLEST {
            return Ok(None);
        }
        let map = Self(Watched::new(Mapping::of_keeper(file)?)?);
        Ok(map.header().is_some_and(Header::is_one).then_some(map))
    }

    /// The owner's number, as it stands in the map; 0 if none does.
    pub fn nonce(&self) -> u64 {
        self.header().map_or(0, Header::owner)
    }

    /// Writes a number of ours into the map, for the owner to see. Must not be 0.
    pub fn confirm(&self, nonce: u64) {
        if let Some(header) = self.header() {
            header.set_keeper(nonce);
        }
    }

    /// Whether a broker has [confirmed](Self::confirm) the map. Before that its owner may not have
    /// said [what is not in it](Self::unmapped).
    pub fn is_confirmed(&self) -> bool {
        self.header().is_some_and(|header| header.broker() != 0)
    }

    /// The slot with this number, if the owner says that there is one.
    pub fn slot(&self, index: u32) -> Option<&Slot> {
        if index < self.header()?.slots() { self.0.mapping()?.slot(index) } else { None }
    }

    /// All slots that the owner says there are, with their numbers.
    pub fn slots(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let there_are = self.header().map_or(0, Header::slots);
        (0..there_are).map_while(|index| Some((index, self.slot(index)?)))
    }

    /// How many locks the owner says it has that are in no slot.
    pub fn unmapped(&self) -> u32 {
        self.header().map_or(0, Header::unmapped)
    }

    /// Whether the file has lost its bytes while it was mapped. The map is as good as none then.
    pub fn is_broken(&self) -> bool {
        self.0.mapping().is_none()
    }

    fn header(&self) -> Option<&Header> {
        self.0.mapping()?.header()
    }
}
