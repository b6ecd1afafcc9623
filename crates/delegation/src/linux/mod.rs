//! What the system does for maps.

mod mapping;
mod room;
mod sigbus;

pub(crate) use self::{
    mapping::{Mapping, Page},
    room::{chance_number, make_room},
    sigbus::Watched,
};
