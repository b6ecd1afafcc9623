//! The memory that navlock's broker shares with each of its clients, by which a client takes and
//! releases a lock without a message.
//!
//! Most locks are taken again by the process that had them last. So when a client releases a lock,
//! the broker leaves the lock to this client. From then on, the client *owns* the name, and takes
//! and releases the lock by changing one [`Word`] in memory. When another client wants the name,
//! the broker takes the name back by changing the same word. This needs no message, no answer and
//! no timeout, whatever the owner is doing at the moment. This crate has both sides of the word, of
//! the fields beside it that describe the lock (together a [`Slot`]), and of the file that contains
//! the slots (a map). `navlock-broker` decides what broker and client say to each other, and when.
//! To lock something, use the crate `navlock`.
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use navlock_delegation::{BrokerMap, OwnerMap, Recalled, Released};
//!
//! let file = tempfile::tempfile()?;
//! let client = OwnerMap::make(&file)?;
//! let broker = BrokerMap::open(&file)?.expect("it is a map");
//! let ours = client.slot(0).expect("there are 63 at first").word();
//! let theirs = broker.slot(0).expect("the client says that there is one").word();
//!
//! let first = theirs.grant(false).expect("it was free");
//! assert!(ours.holds(first));
//! assert_eq!(ours.release(first), Released::Kept);
//!
//! // The client takes the lock without the broker.
//! let second = ours.take().expect("it is ours");
//! assert_eq!(ours.release(second), Released::Kept);
//!
//! assert_eq!(theirs.recall(), Recalled::Free);
//! assert_eq!(ours.take(), None);
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The crate has no features.
//!
//! # The word
//!
//! A word has 64 bits: five flags, and above them the *count* of the holds so far. Whatever its
//! bits are, a word is in one of these states:
//!
//! | state | flags | |
//! |---|---|---|
//! | free | not `OWNED`, or `OWNED` and `RECALLED`, or flags that make no sense | the broker's; it can be granted |
//! | idle | `OWNED` alone | the client's, and nobody holds it |
//! | held | `OWNED`, `HELD`, perhaps `RECALLED` | the client's, and somebody holds it |
//! | lost | as held, and `STOLEN` or `REVOKED` | the hold has ended, and its holder has not seen this yet |
//!
//! Who changes the word:
//!
//! | from | to | who | by |
//! |---|---|---|---|
//! | free | held, count + 1 | broker | [`grant`](Word::grant): exclusive locks that nobody else waits for stay with the client; all others are recalled from the start |
//! | idle | held, count + 1 | owner | [`take`](Word::take) |
//! | held | idle | owner | [`release`](Word::release): [`Kept`](Released::Kept), no message |
//! | held, recalled | free | owner | [`release`](Word::release): [`Tell`](Released::Tell), a message |
//! | idle | free | broker | [`recall`](Word::recall): another client wants the name |
//! | | | owner | [`give_back`](Word::give_back): the owner is about to ask the broker for the name |
//! | held | held, recalled | both | `recall` or `give_back`: this hold goes on, and is the last |
//! | held | lost | broker | [`steal`](Word::steal), [`revoke`](Word::revoke) |
//! | lost, any | free | owner | [`clear`](Word::clear) |
//!
//! Each change is one atomic exchange. So there are no two steps between which a death could leave
//! a change half done. Except for the grant, the broker's changes only add flags, and adding flags
//! cannot fail. So an owner in a tight loop delays nobody. The broker tries a grant only once.
//!
//! **Invariant:** only a grant makes a free word the client's. So when the broker has got the
//! answer [`Free`](Recalled::Free), it may grant the name to others.
//!
//! **Invariant:** the count grows with each hold and never goes back, even if the slot is used for
//! another name. So a release that comes late, after a theft or after a new grant of the slot,
//! finds a word that it does not expect, and changes nothing.
//!
//! The token of a hold is the slot's base plus the hold's count. The broker sets the base so that
//! the token of its grant is the current time in nanoseconds. When it has recalled a word, it
//! raises its own tokens to the clock. No owner takes a lock more than once in a nanosecond. So a
//! grant after the recall has a larger token than all takes before it, and the broker need not know
//! the count for that. A shared lock may have several owners, each with its own word. They take
//! their tokens from the same clock, and set the base accordingly.
//!
//! # What happens when
//!
//! | | |
//! |---|---|
//! | a client dies, idle or holding, at any step | its connection ends; the broker revokes its words, and grants its locks to others |
//! | a client is stopped, idle | the broker takes the name back at once |
//! | a client is stopped, holding | others wait, as for any lock |
//! | the broker dies, at any step | the words stand in the clients' files; the next broker recalls all of them before it does anything else; until then, clients take idle words; holders go on, and the broker reads in the maps which locks they hold |
//! | a recall comes at the same moment as a take or a release | one of them is first, and both sides see the same outcome |
//! | a hold is released while there is no broker | the word shows the release; the client must also tell the next broker, which may have read the hold before |
//! | a grant's message is lost with the broker | the word shows the grant; the client that comes back reads the word before it asks again |
//! | a request is ended before its answer was heard | the owner [takes the description away](Slot::renounce); if the broker dies, the next one takes a grant there for nobody's |
//! | a client forks | the child has no map: there, [`OwnerMap::slot`] returns `None` |
//! | the client's file is truncated, or its disk has no room | broker and client survive, and read zeros, which mean that nothing is held; see [`BrokerMap`] and [`OwnerMap`] |
//! | the client writes nonsense | the client holds what the word says, or nothing |
//!
//! # The map
//!
//! A map is a file that a client keeps locked as long as the client lives. The file has a header
//! and 63 slots, and grows to 1023 slots as they are needed. `layout.rs` says what stands where in
//! the file. The header and each slot have 256 bytes and consist of atomics alone. So there is no
//! undefined behaviour, whatever the other side writes, and whenever it does. Each side has sent the
//! other a random number by message, and also writes this number into the map. This proves that both
//! sides see the same memory.
//!
//! The tests: `tests/protocol` reaches every state of two clients and a broker; `tests/shuttle.rs`
//! tries the interleavings of single loads and exchanges; `tests/hostile.rs` and
//! `tests/processes.rs` are for noise, truncated files, full disks, forks and signals.
//!
//! Maps can be made on Linux only. Elsewhere, [`OwnerMap::make`] fails as unsupported, and every
//! lock takes a message. Only the module `linux` has `unsafe` code.

#![deny(unsafe_code)]

/// What the registry shows.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod atomic;
#[cfg(not(shuttle))]
mod broker_map;
#[cfg(all(not(target_os = "linux"), not(shuttle)))]
mod elsewhere;
#[cfg(not(shuttle))]
mod forked;
#[cfg(not(shuttle))]
mod header;
mod layout;
#[cfg(all(target_os = "linux", not(shuttle)))]
#[allow(unsafe_code, reason = "memory is mapped there, and a signal handled")]
mod linux;
#[cfg(not(shuttle))]
mod owner;
mod slot;
mod word;

#[cfg(all(not(target_os = "linux"), not(shuttle)))]
use elsewhere as system;
#[cfg(all(target_os = "linux", not(shuttle)))]
use linux as system;

#[cfg(not(shuttle))]
pub use crate::{broker_map::BrokerMap, forked::Unforked, owner::OwnerMap};
pub use crate::{
    slot::{Description, Slot},
    word::{GivenBack, Look, Recalled, Released, Word},
};
