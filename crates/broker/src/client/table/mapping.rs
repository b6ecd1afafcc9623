//! Whether names can be ours on this connection: whether our file is a map, and the daemon has it too.

/// How far it is.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Nobody has said that there must be none.
    pub(super) is_wanted: bool,
    pub(super) stage: Stage,
    /// Something was granted on this connection. Who takes one lock and ends needs no map.
    pub(super) has_granted: bool,
    /// The daemon was told of a map on this connection, which it is once.
    pub(super) is_said: bool,
    pub(super) task: Option<MapTask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Our file is no map.
    None,
    /// The maintainer makes it one.
    Coming,
    /// It cannot be one.
    Failed,
    /// It is one, which the daemon has not said that it has.
    Made,
    /// The daemon has it too.
    Confirmed,
}

/// What is to be done with the file, by who may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum MapTask {
    Make,
    Grow,
}

impl Mapping {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, stage: Stage::None, has_granted: false, is_said: false, task: None }
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.stage == Stage::Confirmed
    }

    pub(super) fn hear_answer(&mut self, is_granted: bool) {
        self.has_granted |= is_granted;
    }

    /// The connection has ended.
    pub(super) fn end_session(&mut self) {
        (self.has_granted, self.is_said) = (false, false);
        if self.stage == Stage::Confirmed {
            self.stage = Stage::Made;
        }
    }
}
