//! What maps need from the operating system.

mod file_space;
mod mapping;
mod pages;
mod sigbus;

pub(crate) use self::{
    file_space::{make_room, random_number},
    mapping::Mapping,
    pages::Page,
    sigbus::Watched,
};
