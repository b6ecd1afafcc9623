//! The two sides of a map: what one side writes, the other side reads.

#![cfg(all(target_os = "linux", not(shuttle)))]

use std::{fs::File, io::ErrorKind};

use navlock_delegation::{BrokerMap, Description, OwnerMap, Recalled, Released, Slot};
use navlock_engine::{Mode, RequestId, ResourceName};

fn file() -> File {
    tempfile::tempfile().expect("a file is made")
}

fn both() -> (OwnerMap, BrokerMap) {
    let file = file();
    let owner = OwnerMap::make(&file).expect("there is room");
    let broker = BrokerMap::open(&file).expect("it can be mapped");
    (owner, broker.expect("it is a map"))
}

#[test]
fn each_side_recognises_the_other_by_its_number() {
    let ((owner, broker), (other, _)) = (both(), both());
    assert_eq!(broker.nonce(), owner.nonce());
    assert_ne!(broker.nonce(), other.nonce());

    assert!(!owner.is_confirmed(0) && !owner.is_confirmed(7));
    broker.confirm(7);
    assert!(owner.is_confirmed(7) && !owner.is_confirmed(8));
    assert!(!other.is_confirmed(7));
}

#[test]
fn a_lock_that_was_granted_is_taken_and_released_until_it_is_recalled() {
    let (owner, broker) = both();
    let (ours, theirs) = (owner.slot(62).unwrap(), broker.slot(62).unwrap());
    assert_eq!(ours.word().take(), None);

    theirs.set_base(1000);
    let first = theirs.word().grant(false).unwrap();
    assert!(ours.word().holds(first) && theirs.word().look().is_held());
    assert_eq!(ours.word().release(first), Released::Kept);

    let second = ours.word().take().unwrap();
    assert_eq!(ours.token(second), 1002);
    assert_eq!(theirs.word().recall(), Recalled::Held);
    assert_eq!(ours.word().release(second), Released::Tell);
    assert_eq!(ours.word().take(), None);
    assert_eq!(ours.word().release(second), Released::Gone);
    assert!(theirs.word().look().is_free());
}

#[test]
fn a_description_arrives_as_it_was_written() {
    let (owner, broker) = both();
    let surrogate = ResourceName::from_utf16(&[0xD800]).unwrap();
    let long = ResourceName::try_from("n".repeat(192)).unwrap();
    for (bucket, name) in
        [("app", surrogate), ("", long), ("", ResourceName::try_from("").unwrap())]
    {
        let written = Description {
            bucket: bucket.into(),
            name,
            mode: Mode::Shared,
            agent: 7,
            client_id: *b"0123456789abcdef",
            request: RequestId::from_parts(u32::MAX, 1 << 40),
        };
        let Description { bucket, name, mode, agent, client_id, request } = &written;
        let slot = owner.slot(0).unwrap();
        assert!(slot.describe(bucket, name, *mode, *agent, *client_id, *request));
        assert_eq!(broker.slot(0).unwrap().description(), Some(written));
    }
    let name = ResourceName::try_from("n".repeat(192)).unwrap();
    assert!(!Slot::fits("b", &name));
}

#[test]
fn both_sides_have_the_slots_that_a_map_grows_by() {
    let (owner, broker) = both();
    for slots in [63, 127, 255, 511, 1023] {
        assert_eq!((owner.slots(), broker.slots().count()), (slots, slots as usize));
        assert!(owner.slot(slots).is_none() && broker.slot(slots).is_none());
        let count = broker.slot(slots - 1).unwrap().word().grant(false).unwrap();
        assert!(owner.slot(slots - 1).unwrap().word().holds(count));
        owner.grow().unwrap();
    }
    assert_eq!(owner.slots(), 1023);
    owner.set_unmapped(3);
    assert_eq!(broker.unmapped(), 3);
}

#[test]
fn a_file_that_is_no_map_is_none() {
    let (empty, long) = (file(), file());
    long.set_len(1 << 20).unwrap();
    for file in [&empty, &long] {
        assert!(BrokerMap::open(file).unwrap().is_none());
    }
    assert_eq!(OwnerMap::make(&long).unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[test]
fn the_owner_knows_what_a_slot_is_of_by_all_of_its_name() {
    let (owner, _broker) = both();
    let slot = owner.slot(0).unwrap();
    let long: String = "documents/".chars().cycle().take(64).collect();
    let named = |length: usize| ResourceName::try_from(&long[..length]).unwrap();
    for length in 0..long.len() {
        let (name, id) = (named(length), RequestId::from_parts(1, 2));
        assert!(slot.describe("bucket", &name, Mode::Shared, 7, [3; 16], id));
        assert!(slot.is_of(7, &name, Mode::Shared));
        assert!(!slot.is_of(8, &name, Mode::Shared) && !slot.is_of(7, &name, Mode::Exclusive));
        assert!(!slot.is_of(7, &named(length + 1), Mode::Shared));
        for at in 0..length {
            let mut other = long[..length].to_owned();
            other.replace_range(at..=at, "X");
            let other = ResourceName::try_from(other).unwrap();
            assert!(!slot.is_of(7, &other, Mode::Shared), "{other}");
        }
    }
}

#[test]
fn a_word_is_taken_as_it_was_seen_or_not_at_all() {
    let (owner, broker) = both();
    let (ours, theirs) = (owner.slot(3).unwrap().word(), broker.slot(3).unwrap().word());
    assert_eq!(ours.take_seen(ours.look()), None);
    let first = theirs.grant(false).unwrap();
    assert_eq!(ours.take_seen(ours.look()), None);
    assert_eq!(ours.release(first), Released::Kept);
    let seen = ours.look();
    // The word becomes idle again. Meanwhile, the slot could have got another lock.
    assert_eq!(theirs.recall(), Recalled::Free);
    let second = theirs.grant(false).unwrap();
    assert_eq!(ours.release(second), Released::Kept);
    assert_eq!(ours.take_seen(seen), None);
    let taken = ours.take_seen(ours.look()).unwrap();
    assert!(taken > second && ours.holds(taken));
}

#[test]
fn a_base_is_not_put_in_the_place_of_a_later_one() {
    let (owner, broker) = both();
    let (ours, theirs) = (owner.slot(3).unwrap(), broker.slot(3).unwrap());
    theirs.set_base(100);
    ours.rebase(100, 150);
    assert_eq!(theirs.token(1), 151);
    theirs.set_base(200);
    ours.rebase(150, 180);
    assert_eq!(ours.token(1), 201);
}
