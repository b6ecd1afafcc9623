//! Replaces the module `linux` on other systems. There, maps do not exist, and making or opening a
//! map is refused.

#![allow(clippy::unnecessary_wraps, reason = "as it is on Linux")]

use std::{convert::Infallible, fs::File, io};

use crate::{Slot, header::Header};

/// A mapped file. No value of this type exists here.
#[derive(Debug)]
pub(crate) struct Mapping(Infallible);

impl Mapping {
    pub(crate) fn of_owner(_: &File) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn of_broker(_: &File) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn header(&self) -> Option<&Header> {
        match self.0 {}
    }

    pub(crate) fn slot(&self, _: u32) -> Option<&Slot> {
        match self.0 {}
    }
}

/// A mapping that survives whatever happens to its file. No value of this type exists here.
#[derive(Debug)]
pub(crate) struct Watched(Mapping);

impl Watched {
    pub(crate) fn of_broker(mapping: Mapping) -> io::Result<Self> {
        Ok(Self(mapping))
    }

    pub(crate) fn of_owner(mapping: Mapping) -> io::Result<Self> {
        Ok(Self(mapping))
    }

    pub(crate) fn mapping(&self) -> Option<&Mapping> {
        Some(&self.0)
    }
}

/// A page that a forked process gets empty. No value of this type exists here.
#[derive(Debug)]
pub(crate) struct Page(Infallible);

impl Page {
    pub(crate) fn new() -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn is_whole(&self) -> bool {
        match self.0 {}
    }
}

pub(crate) fn make_room(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn random_number() -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}
