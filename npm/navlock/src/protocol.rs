//! The numbers that cross between the addon and its face, all of them: the face reads them from the
//! addon, where they are properties by these names.
//!
//! An *answer* (of `request`, `query`, `next` and `release`) is one number: the id of what it is
//! about, whether there are more answers to take, and a [`Status`].

use std::ffi::CStr;

/// Where something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    /// There will be news of it. As news of a request: it waits on, and there is
    /// [something to be told](flag::TELLS_DEADLOCK) of it.
    Pending = 0,
    /// A lock is held; a question is answered.
    Granted = 1,
    /// The lock could not be had at once.
    Unavailable = 2,
    /// The request has failed, or the lock that it had become is lost.
    Failed = 3,
}

/// An id, the bit [`MORE`], and a [`Status`]; or [`NOTHING`].
pub(crate) type Answer = u32;

/// The bits of an answer that are the status.
const STATUS: Answer = 3;

/// The bit of an answer that says that there are more.
const MORE: Answer = 4;

/// How far up in an answer the id is.
const ID_SHIFT: Answer = 3;

/// The answer when there is nothing.
pub(crate) const NOTHING: Answer = Answer::MAX;

/// Ids are smaller, so that an answer has room for them and [`NOTHING`] is none.
pub(crate) const ID_END: u32 = Answer::MAX >> ID_SHIFT;

pub(crate) fn answer((id, status): (u32, Status), has_more: bool) -> Answer {
    id << ID_SHIFT | if has_more { MORE } else { 0 } | status as Answer
}

/// What a request may ask for, as bits of a number. [`SHARED`](flag::SHARED) is also the fact of a
/// snapshot that says it.
pub(crate) mod flag {
    pub(crate) const SHARED: u32 = 1;
    pub(crate) const IF_AVAILABLE: u32 = 2;
    pub(crate) const STEAL: u32 = 4;
    /// It has a signal, so it may give up by itself.
    pub(crate) const SIGNAL: u32 = 8;
    /// It fails if it would wait for ever, as far as that is known.
    pub(crate) const FAILS_ON_DEADLOCK: u32 = 16;
    /// It is news of it, once, that it would wait for ever.
    pub(crate) const TELLS_DEADLOCK: u32 = 32;
}

/// How far the locks of a user agent are seen.
pub(crate) mod reach {
    pub(crate) const PROCESS: u32 = 0;
    pub(crate) const MACHINE: u32 = 1;
}

/// What the face reads.
pub(crate) const NUMBERS: [(&CStr, u32); 16] = [
    (c"PENDING", Status::Pending as u32),
    (c"GRANTED", Status::Granted as u32),
    (c"UNAVAILABLE", Status::Unavailable as u32),
    (c"FAILED", Status::Failed as u32),
    (c"STATUS", STATUS),
    (c"MORE", MORE),
    (c"ID_SHIFT", ID_SHIFT),
    (c"NOTHING", NOTHING),
    (c"SHARED", flag::SHARED),
    (c"IF_AVAILABLE", flag::IF_AVAILABLE),
    (c"STEAL", flag::STEAL),
    (c"SIGNAL", flag::SIGNAL),
    (c"FAILS_ON_DEADLOCK", flag::FAILS_ON_DEADLOCK),
    (c"TELLS_DEADLOCK", flag::TELLS_DEADLOCK),
    (c"PROCESS", reach::PROCESS),
    (c"MACHINE", reach::MACHINE),
];
