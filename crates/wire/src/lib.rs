//! The protocol between a navlock broker and its clients: the messages, and the frames that carry
//! them. This crate has no sockets and no clock: bytes go in, and messages come out.
//!
//! This is not the crate to lock something with: `navlock` is.
//!
//! ```
//! use bytes::BytesMut;
//! use navlock_wire::{Sent, ToDaemon, VERSION, decode, encode};
//!
//! let hello = ToDaemon::Hello { oldest: VERSION, newest: VERSION };
//! let mut bytes = BytesMut::new();
//! encode(&Sent { at: 7, message: &hello }, &mut bytes)?;
//! assert_eq!(decode::<Sent>(&mut bytes)?, Some(Sent { at: 7, message: hello }));
//! # Ok::<(), navlock_wire::CodecError>(())
//! ```
//!
//! A frame is four bytes of length, most significant first, and one message in postcard's form; a
//! client's message has the time before it at which it was sent. A session begins with
//! [`ToDaemon::Hello`]. The answer is [`FromDaemon::Welcome`] or [`FromDaemon::Refused`]. From then
//! on, each side sends messages at any time.
//!
//! # What later versions may change
//!
//! The client says which versions it speaks. The daemon speaks one, and refuses a client that does
//! not speak it.
//!
//! - A release may change any other message, and then has another version.
//! - `Hello`, `Welcome` and `Refused` are read before a version is agreed on. They
//!   keep their place and their members for ever; new members go at the end, where an old reader
//!   passes over them.
//!
//! The crate has no features.
//!
//! Read on at [`ToDaemon`] and [`FromDaemon`].

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod codec;
mod failure;
mod file_task;
mod from_daemon;
mod ids;
mod limits;
mod looking;
mod numbers;
mod status;
mod stealing;
mod to_daemon;
mod version;

pub use crate::{
    codec::{CodecError, Message, Outgoing, decode, decode_last, encode},
    failure::{Failure, HowLost},
    file_task::FileTask,
    from_daemon::{FromDaemon, TermBounds},
    ids::{Agent, BootTime, ClientId, ClientKey, Moment, Query, Slot},
    limits::{MAX_BUCKET, MAX_FRAME, MAX_INSIDE, MAX_META, MAX_NAME, MAX_TEXT},
    looking::LookEvent,
    numbers::{Numbers, Waits},
    status::{LogState, SessionEnd, Status},
    stealing::NotStolen,
    to_daemon::{Sent, ToDaemon},
    version::{VERSION, negotiate},
};
