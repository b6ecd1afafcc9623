//! Makes the client's own file a map, by which the client can own names, and lets the daemon map
//! the file as well.

use std::io;

use navlock_core::Lost;
use navlock_delegation::OwnerMap;
use navlock_engine::RequestId;
use navlock_wire::ToDaemon;

use super::{
    ClientTable, SlotPlace, State,
    link::Link,
    mapping::{MapTask, Mapping, Stage},
};

impl ClientTable {
    /// Whether a map may be of use with this daemon.
    fn may_map(&self) -> bool {
        self.mapping.is_wanted && self.link == Link::Up && self.reach.is_none()
    }

    /// To be called when a request is made: notes whether the file has to become a map, or has to
    /// get more slots, for later requests.
    pub(super) fn see_to_map(&mut self, wants_room: bool) {
        if wants_room {
            self.mapping.task = Some(MapTask::Grow);
        }
        let Mapping { stage, has_granted, is_said, .. } = self.mapping;
        let wants_map = stage == Stage::None && has_granted && !is_said && self.may_map();
        // A new map says nothing of locks in earlier maps, and a daemon that reads it would believe
        // that there are none.
        if wants_map && !self.owned.slots().has_old() {
            self.mapping.stage = Stage::Coming;
            self.mapping.task = Some(MapTask::Make);
        }
    }

    pub(in super::super) fn has_map_task(&self) -> bool {
        self.mapping.task.is_some()
    }

    pub(in super::super) fn take_map_task(&mut self) -> Option<MapTask> {
        self.mapping.task.take()
    }

    /// To be called when the file was made a map, or could not be made one.
    pub(in super::super) fn map_made(&mut self, made: io::Result<OwnerMap>) {
        if self.mapping.stage != Stage::Coming {
            return;
        }
        let is_made = made.is_ok_and(|map| self.owned.slots().set_map(map));
        self.mapping.stage = if is_made { Stage::Made } else { Stage::Failed };
        // This comes before the daemon reads the map.
        self.count_unmapped(0);
        self.say_map();
    }

    /// Tells the daemon of the map, if there is one.
    pub(super) fn say_map(&mut self) {
        if self.mapping.stage == Stage::Made && self.may_map() {
            let nonce = self.owned.map().map(OwnerMap::nonce);
            if let Some(nonce) = nonce {
                self.mapping.is_said = true;
                self.say(&ToDaemon::Map { nonce });
            }
        }
    }

    /// To be called when the daemon says that it has mapped the file. That is so if `nonce` is the
    /// number that the daemon has written there.
    pub(super) fn mapped(&mut self, nonce: u64, epoch: u64) {
        let is_same = || self.owned.map().is_some_and(|map| map.is_confirmed(nonce));
        if self.mapping.stage == Stage::Made && self.may_map() && is_same() {
            self.owned.set_epoch(epoch);
            self.mapping.stage = Stage::Confirmed;
        }
    }

    /// To be called when our file was replaced by another one, which is no map.
    pub(in super::super) fn file_replaced(&mut self) {
        self.give_back();
        self.owned.slots().retire();
        self.mapping.stage = Stage::None;
        self.mapping.task = None;
    }

    /// Stops owning names. Locks that are held will be released by a message.
    pub(in super::super) fn stop_owning(&mut self) {
        self.mapping.is_wanted = false;
        self.give_back();
        if self.mapping.stage == Stage::Confirmed {
            self.mapping.stage = Stage::Made;
        }
    }

    fn give_back(&mut self) {
        let given_back = self.owned.slots().give_back();
        for request in given_back {
            self.say(&ToDaemon::Finish { request });
        }
    }

    /// Whether our file can be removed, because this client holds no locks. If so, no names can be
    /// taken any more.
    pub(in super::super) fn leave(&mut self) -> bool {
        if !self.holds() {
            self.give_back();
        }
        // This is asked again, because another thread may have taken a name in between.
        let leaves = !self.holds();
        if leaves {
            self.file_replaced();
        }
        leaves
    }

    /// How a lock that was granted in a slot was lost, as the daemon has written it into the map. The
    /// daemon's message may still be on its way.
    pub(in super::super) fn seen_lost(&self, id: RequestId) -> Option<Lost> {
        let request = self.requests.get(id.index()).filter(|known| known.serial == id.serial())?;
        match (&request.state, request.place) {
            (State::Held(..), SlotPlace::Hold(hold)) => {
                self.owned.seen_lost(hold.index, hold.count)
            }
            _ => None,
        }
    }
}
