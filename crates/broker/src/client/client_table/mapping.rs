//! Whether names can be owned on this connection, which is so if our file is a map and the daemon has
//! mapped it as well.

/// The state of the map on this connection.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Whether the options allow a map.
    pub(super) is_wanted: bool,
    pub(super) stage: Stage,
    /// Whether a lock was granted on this connection. A program that takes one lock and ends needs
    /// no map.
    pub(super) has_granted: bool,
    /// Whether the daemon was told of a map on this connection. It is told at most once.
    pub(super) is_said: bool,
    pub(super) task: Option<MapTask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Our file is no map.
    None,
    /// The maintainer has to make the file a map.
    Coming,
    /// The file could not be made a map.
    Failed,
    /// The file is a map, and the daemon has not confirmed it.
    Made,
    /// The daemon has mapped the file as well.
    Confirmed,
}

/// What a thread that may wait for the disk has to do with the file.
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

    /// Notes that the connection has ended.
    pub(super) fn end_session(&mut self) {
        (self.has_granted, self.is_said) = (false, false);
        if self.stage == Stage::Confirmed {
            self.stage = Stage::Made;
        }
    }
}
