//! The broker's side of a map.

use std::{fs::File, io};

use crate::{
    Slot,
    header::Header,
    layout,
    system::{Mapping, Watched},
};

/// A client's file, as the broker sees it. Anybody may have written anything into it.
///
/// Nothing that is done to the file harms the broker's process. A page of the file can be missing,
/// because somebody has truncated the file or the disk has no room for the page. The first access
/// to such a page finds zeros, which mean that nothing is held. From then on, the map [is
/// broken](Self::is_broken) and has no slots.
#[derive(Debug)]
pub struct BrokerMap(Watched);

impl BrokerMap {
    /// Maps a client's file, which must be open for reading and writing. `None` if the file is not
    /// a map.
    ///
    /// The file need not stay open.
    ///
    /// # Errors
    ///
    /// If the system cannot map the file.
    pub fn open(file: &File) -> io::Result<Option<Self>> {
        let about = file.metadata()?;
        if !about.is_file() || about.len() < layout::SMALLEST {
            return Ok(None);
        }
        let map = Self(Watched::of_broker(Mapping::of_broker(file)?)?);
        Ok(map.header().is_some_and(Header::is_one).then_some(map))
    }

    /// The owner's number, as the map has it, or 0 if the map has none.
    pub fn nonce(&self) -> u64 {
        self.header().map_or(0, Header::owner)
    }

    /// Writes a number of the broker into the map, for the owner to see. The number must not be 0.
    pub fn confirm(&self, nonce: u64) {
        if let Some(header) = self.header() {
            header.set_broker(nonce);
        }
    }

    /// Whether a broker has [confirmed](Self::confirm) the map. Before that, the owner may not yet
    /// have written [how many of its locks are in no slot](Self::unmapped).
    pub fn is_confirmed(&self) -> bool {
        self.header().is_some_and(|header| header.broker() != 0)
    }

    /// The slot with this number, or `None` if the owner says that there is no such slot.
    pub fn slot(&self, index: u32) -> Option<&Slot> {
        if index < self.header()?.slots() { self.0.mapping()?.slot(index) } else { None }
    }

    /// All slots that exist according to the owner, with their numbers.
    pub fn slots(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let there_are = self.header().map_or(0, Header::slots);
        (0..there_are).map_while(|index| Some((index, self.slot(index)?)))
    }

    /// How many locks the owner has in no slot, according to the owner.
    pub fn unmapped(&self) -> u32 {
        self.header().map_or(0, Header::unmapped)
    }

    /// Whether the file has lost bytes while it was mapped. Such a map is as good as none.
    pub fn is_broken(&self) -> bool {
        self.0.mapping().is_none()
    }

    fn header(&self) -> Option<&Header> {
        self.0.mapping()?.header()
    }
}
