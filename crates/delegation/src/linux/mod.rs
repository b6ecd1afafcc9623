//! What the system does for maps.

mod mapping;
mod pages;
mod room;
mod sigbus;

pub(crate) use self::{
    mapping::Mapping,
    pages::Page,
    room::{chance_number, make_room},
    sigbus::Watched,
};
