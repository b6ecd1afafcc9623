//! The memory that navlock's broker shares with each of its clients, by which a client takes and
//! releases a lock without a message.
//!
//! Most locks are taken again by the process that had them last. So the broker leaves a lock that was released to the
//! client that had it: the client *owns* the name from then on, and takes and releases the lock by changing one
//! [`Word`] in memory. When somebody else wants the name, the broker changes the same word, and has the name back:
//! there is no message, no answer to wait for and no timeout, whatever the owner is just doing. This crate is the word,
//! the fields beside it that say whose lock it is (a [`Slot`]), and the file that contains them (a map), for both
//! sides. What broker and client say to each other, and when, is in `navlock-broker`. To lock something, use the crate
//! `navlock`.
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
//! // Without the broker.
//! let second = ours.take().expect("it is ours");
//! assert_eq!(ours.release(second), Released::Kept);
//!
//! assert_eq!(theirs.recall(), Recalled::Free);
//! assert_eq!(ours.take(), None);
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The word
//!
//! 64 bits: five flags, and above them the *count* of the holds so far. Whatever its bits are, the word is in one of
//! these states:
//!
//! | state | flags | |
//! |---|---|---|
//! | free | not `OWNED`, or `OWNED` and `RECALLED`, or what makes no sense | the broker's; it can be granted |
//! | idle | `OWNED` alone | the client's, and nobody holds it |
//! | held | `OWNED`, `HELD`, perhaps `RECALLED` | the client's, and somebody holds it |
//! | lost | as held, and `STOLEN` or `REVOKED` | its holder has not seen yet that it ended |
//!
//! Who changes it:
//!
//! | from | to | who | by |
//! |---|---|---|---|
//! | free | held, count + 1 | broker | [`grant`](Word::grant): exclusive locks that nobody else waits for stay with the client; all others are recalled from the start |
//! | idle | held, count + 1 | owner | [`take`](Word::take) |
//! | held | idle | owner | [`release`](Word::release): [`Kept`](Released::Kept), no message |
//! | held, recalled | free | owner | [`release`](Word::release): [`Tell`](Released::Tell), a message |
//! | idle | free | broker | [`recall`](Word::recall): somebody else wants it |
//! | | | owner | [`give_back`](Word::give_back): it is about to ask for it in another way |
//! | held | held, recalled | both | the same: this hold goes on, and is the last |
//! | held | lost | broker | [`steal`](Word::steal), [`revoke`](Word::revoke) |
//! | lost, any | free | owner | [`clear`](Word::clear) |
//!
//! Each of these is one atomic exchange, so there are no two steps between which a death could leave a change half
//! done. The broker's changes, except for the grant, add flags, which cannot fail: an owner in a tight loop delays
//! nobody. The grant is tried once.
//!
//! **Invariant:** nothing but a grant makes a free word the client's. So a broker that was answered
//! [`Free`](Recalled::Free) may grant the name to others.
//!
//! **Invariant:** the count grows with each hold and never goes back, whatever name the slot is for. So a release that
//! comes late, after a theft or after the slot was granted anew, finds a word that it does not expect, and changes
//! nothing.
//!
//! The token of a hold is its slot's base plus its count. The broker sets the base so that the token of its grant is
//! the current time in nanoseconds, and raises its own tokens to the clock when it has recalled a word. No owner takes
//! a lock once a nanosecond, so a grant after the recall has a larger token than all takes before it. The broker need
//! not know the count for that. A shared lock may have several owners, each with a word of its own; they take their
//! tokens from the same clock, and set the base accordingly.
//!
//! # What happens when
//!
//! | | |
//! |---|---|
//! | a client dies, idle or holding, at any step | its connection ends; the broker revokes its words and grants others what it had |
//! | a client is stopped, idle | its name is taken back at once |
//! | a client is stopped, holding | others wait, as for any lock |
//! | the broker dies, at any step | the words stand in the clients' files; the next broker recalls all of them before it does anything else: who holds goes on, and is known by name; clients take idle words until then |
//! | a recall comes with a take or a release | one of them is first: both sides are told the same |
//! | a hold is released while there is no broker | the word says it; the client must come back and say it, for the next broker may have seen the hold before |
//! | a grant's message is lost with the broker | the word says it; the client that comes back looks there before it asks again |
//! | a client forks | the child has no map: [`OwnerMap::slot`] gives none there |
//! | the client's file is truncated, or its disk has no room | the broker survives, and reads zeros: free; see [`BrokerMap`] |
//! | the client writes nonsense | it holds what the word says, or nothing |
//!
//! # The map
//!
//! The file that a client keeps locked for as long as it lives: a header, and 63 slots, which become 1023 as they are
//! needed. Header and slots have 256 bytes each and consist of atomics alone, so that there is no undefined behaviour
//! whatever the other side writes, and when. Each side has told the other a random number by message, and shows it
//! through the map as well, which proves that both see the same memory.
//!
//! The tests: `tests/protocol` reaches every state of two clients and a broker; `tests/shuttle.rs` tries the
//! interleavings of single loads and exchanges; `tests/hostile.rs` and `tests/processes.rs` are for noise, truncated
//! files, full disks, forks and signals.
//!
//! Maps are made on Linux only: elsewhere [`OwnerMap::make`] returns that it is not supported, and every lock takes a
//! message. `unsafe` is in the module `linux` alone.

#![deny(unsafe_code)]

mod atomic;
#[cfg(not(shuttle))]
mod broker_map;
#[cfg(all(not(target_os = "linux"), not(shuttle)))]
mod elsewhere;
#[cfg(not(shuttle))]
mod forked;
#[cfg(not(shuttle))]
mod header;
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
