//! A map with arbitrary contents, or whose file is shorter than the map says, harms nobody but the
//! client that owns it.

#![cfg(all(target_os = "linux", not(shuttle)))]
#![forbid(unsafe_code)]

use std::{fs::File, os::unix::fs::FileExt, thread};

use navlock_delegation::{BrokerMap, OwnerMap, Recalled, Released, Slot, Word};
use navlock_engine::{Mode, RequestId, ResourceName};
use proptest::prelude::*;

/// The size of the header and of each slot.
const SLOT: u64 = 256;
/// Where the header has the number of slots.
const SLOTS: u64 = 32;
const SHORTEST: u64 = 64 * SLOT;

fn map() -> (File, OwnerMap, BrokerMap) {
    let file = tempfile::tempfile().expect("a file is made");
    let owner = OwnerMap::make(&file).expect("there is room");
    let broker = BrokerMap::open(&file).expect("it can be mapped").expect("it is a map");
    (file, owner, broker)
}

/// Calls the operations of a broker on a slot.
fn keep(slot: &Slot) {
    if let Some(about) = slot.description() {
        assert!(Slot::fits(&about.bucket, &about.name));
    }
    let _ = (slot.token(slot.word().look().count()), slot.since(), format!("{slot:?}"));
    slot.set_base(1);
    let _ = slot.word().grant(false);
    for take_back in [Word::recall as fn(&Word) -> Recalled, Word::steal, Word::revoke] {
        let _ = take_back(slot.word());
    }
}

/// Calls the operations of a client on a slot.
fn own(slot: &Slot) {
    let word = slot.word();
    let _ = word.take().map(|count| word.release(count));
    let _ = (word.release(word.look().count()), word.holds(7), word.give_back());
    word.clear();
    assert!(word.look().is_free());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_means_something_or_nothing(
        noise in proptest::collection::vec(any::<u8>(), 63 * 256),
        header in any::<[[u8; 8]; 4]>(),
    ) {
        let (file, owner, broker) = map();
        // The noise overwrites everything but the mark. Without the mark, a new broker does not
        // take the file for a map.
        file.write_all_at(&header.concat(), 8).unwrap();
        file.write_all_at(&0_u64.to_le_bytes(), SLOTS).unwrap();
        file.write_all_at(&noise, SLOT).unwrap();
        prop_assert!(broker.slots().next().is_none());
        file.write_all_at(&63_u64.to_le_bytes(), SLOTS).unwrap();
        for broker in [broker, BrokerMap::open(&file).unwrap().unwrap()] {
            let _ = (broker.nonce(), broker.unmapped());
            broker.slots().for_each(|(_, slot)| keep(slot));
            prop_assert_eq!(broker.slots().count(), 63);
        }
        file.write_all_at(&noise, SLOT).unwrap();
        (0..owner.slots()).filter_map(|index| owner.slot(index)).for_each(own);
    }
}

#[test]
fn each_field_may_be_anything() {
    let (file, owner, broker) = map();
    let name = ResourceName::try_from("db").unwrap();
    let slot = owner.slot(0).unwrap();
    for field in 0..SLOT / 8 {
        // One of these values is a mode with lengths that are too long.
        for anything in [0, 1, 0xD8, 0xFFFF_0001, 0xFF_FFFF_FF01, 1 << 40, u64::MAX >> 1, u64::MAX]
        {
            slot.word().clear();
            let request = RequestId::from_parts(1, 2);
            assert!(slot.describe("app", &name, Mode::Exclusive, 3, [4; 16], request));
            file.write_all_at(&u64::to_le_bytes(anything), SLOT + 8 * field).unwrap();
            keep(broker.slot(0).unwrap());
            own(slot);
        }
    }
    // The header is hostile, too. It must not make either side believe in more slots than a map can
    // have.
    for field in 1..SLOT / 8 {
        file.write_all_at(&u64::MAX.to_le_bytes(), 8 * field).unwrap();
    }
    assert!(broker.slot(1023).is_none() && broker.slot(u32::MAX).is_none());
    assert_eq!((broker.unmapped(), owner.slots()), (u32::MAX, 63));
}

#[test]
fn a_map_that_says_it_has_more_slots_than_the_file_is_broken_alone() {
    let (file, owner, broker) = map();
    let (_whole, _, other) = map();
    file.write_all_at(&1023_u64.to_le_bytes(), SLOTS).unwrap();
    assert!(!broker.is_broken());
    assert!(owner.slot(63).is_none());

    let beyond = broker.slot(1022).unwrap();
    assert!(beyond.word().look().is_free());
    assert!(beyond.description().is_none_or(|about| about.bucket.is_empty()));
    assert!(broker.is_broken() && broker.slot(0).is_none() && broker.nonce() == 0);
    assert!(!other.is_broken() && other.slot(0).is_some());
}

#[test]
fn a_file_that_is_grown_and_shrunk_is_free_where_it_has_ended() {
    let (file, owner, broker) = map();
    while owner.slots() < 1023 {
        owner.grow().unwrap();
    }
    let held = broker.slot(1022).unwrap().word();
    assert!(held.grant(false).is_some());
    file.set_len(SHORTEST).unwrap();
    assert!(held.look().is_free());
    assert!(broker.is_broken());
    assert!(BrokerMap::open(&file).unwrap().is_some_and(|broker| broker.slot(62).is_some()));

    // The broker reads zeros and gets no SIGBUS. So it has nothing to notice, and nothing is held.
    let (file, _owner, broker) = map();
    assert!(broker.slot(0).unwrap().word().grant(false).is_some());
    file.set_len(0).unwrap();
    file.set_len(SHORTEST).unwrap();
    assert!(broker.slot(0).is_none() && broker.nonce() == 0 && !broker.is_broken());
}

#[test]
fn an_owner_survives_and_shares_what_is_left_of_its_file() {
    let (file, owner, broker) = map();
    assert!(owner.grow().unwrap() > 100);
    let grant = |index| broker.slot(index).unwrap().word().grant(false).unwrap();
    let [left, gone] = [3, 100].map(|index| (index, grant(index)));
    let holds = |(index, count): (u32, u64)| owner.slot(index).unwrap().word().holds(count);
    assert!(holds(left) && holds(gone));
    file.set_len(SHORTEST).unwrap();
    assert!(holds(left) && !holds(gone));
    assert_eq!(owner.slot(100).unwrap().word().take(), None);
    // What the file has again is not what the owner sees.
    assert!(owner.grow().is_err());
    let rest = BrokerMap::open(&file).unwrap().unwrap();
    assert_eq!(rest.slot(3).unwrap().word().recall(), Recalled::Held);
    assert_eq!(owner.slot(3).unwrap().word().release(left.1), Released::Tell);

    file.set_len(0).unwrap();
    assert!(!holds(left) && !owner.is_confirmed(1));
    // Another map is as good as ever.
    let (_file, owner, broker) = map();
    let count = broker.slot(0).unwrap().word().grant(false).unwrap();
    assert!(owner.slot(0).unwrap().word().holds(count));
}

#[test]
fn a_broker_survives_files_that_are_truncated_while_it_looks_at_them() {
    for _ in 0..200 {
        let (file, _owner, broker) = map();
        thread::scope(|scope| {
            let lookers = [(); 2].map(|()| {
                scope.spawn(|| {
                    while !broker.is_broken() {
                        broker.slots().for_each(|(_, slot)| keep(slot));
                        broker.confirm(7);
                    }
                })
            });
            file.set_len(0).unwrap();
            for looker in lookers {
                looker.join().unwrap();
            }
        });
        assert!(broker.slots().next().is_none());
    }
}

#[test]
fn of_many_maps_each_breaks_alone() {
    let mut maps: Vec<_> = (0..200).map(|_| map()).collect();
    // Later, new maps are mapped where the dropped ones were.
    maps.retain({
        let mut nth = 0;
        move |_| {
            nth += 1;
            nth % 3 != 0
        }
    });
    maps.extend((0..100).map(|_| map()));
    for (file, ..) in maps.iter().step_by(2) {
        file.set_len(0).unwrap();
    }
    for (nth, (_, _, broker)) in maps.iter().enumerate() {
        assert!(!broker.is_broken());
        assert_eq!(broker.slot(0).is_some(), nth % 2 != 0);
        assert_eq!(broker.is_broken(), nth % 2 == 0);
    }
}
