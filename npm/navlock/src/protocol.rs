//! All numbers that cross between the addon and its JavaScript side. The JavaScript side reads them
//! from the addon, which has properties with these names.
//!
//! An *answer* (of `request`, `query`, `next` and `release`) is one number. It has the id of its
//! slot, a bit that says whether more answers can be taken, and a [`Status`].

use std::ffi::CStr;

/// How a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Status {
    /// The answer comes later. As news of a request: the request waits on, and
    /// [a deadlock](flag::TELLS_DEADLOCK) is to be told.
    Pending = 0,
    /// A lock is held; a query is answered.
    Granted = 1,
    /// The lock could not be had at once.
    Unavailable = 2,
    /// The request has failed, or its lock is lost.
    Failed = 3,
}

/// An id, the bit [`MORE`], and a [`Status`]; or [`NOTHING`].
pub(crate) type Answer = u32;

/// The bits of an answer that are the status.
const STATUS: Answer = 3;

/// The bit of an answer that says that there are more answers.
const MORE: Answer = 4;

/// By how many bits the id is shifted in an answer.
const ID_SHIFT: Answer = 3;

/// The answer that says nothing.
pub(crate) const NOTHING: Answer = Answer::MAX;

/// Ids are smaller than this. So an answer has room for every id, and no answer equals [`NOTHING`].
pub(crate) const ID_END: u32 = Answer::MAX >> ID_SHIFT;

pub(crate) fn answer((id, status): (u32, Status), has_more: bool) -> Answer {
    id << ID_SHIFT | if has_more { MORE } else { 0 } | status as Answer
}

/// What a request may ask for, as bits of a number. A snapshot uses [`SHARED`](flag::SHARED), too.
pub(crate) mod flag {
    pub(crate) const SHARED: u32 = 1;
    pub(crate) const IF_AVAILABLE: u32 = 2;
    pub(crate) const STEAL: u32 = 4;
    /// The request has a signal, so it may give up by itself.
    pub(crate) const SIGNAL: u32 = 8;
    /// The request fails in a deadlock, as far as deadlocks are known.
    pub(crate) const FAILS_ON_DEADLOCK: u32 = 16;
    /// A deadlock of the request is told once, as news of the request.
    pub(crate) const TELLS_DEADLOCK: u32 = 32;
}

/// Who sees the locks of a user agent.
pub(crate) mod reach {
    pub(crate) const PROCESS: u32 = 0;
    pub(crate) const MACHINE: u32 = 1;
    /// Several users of the machine.
    pub(crate) const SYSTEM: u32 = 2;
}

/// The properties that the JavaScript side reads.
pub(crate) const NUMBERS: [(&CStr, u32); 17] = [
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
    (c"SYSTEM", reach::SYSTEM),
];
