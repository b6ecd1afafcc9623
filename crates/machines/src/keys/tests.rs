use crate::names::spelling::LONGEST;

use super::*;

fn name(units: &[u16]) -> ResourceName {
    ResourceName::from_utf16(units).unwrap()
}

fn of(text: &str) -> ResourceName {
    ResourceName::try_from(text).unwrap()
}

#[test]
fn every_key_is_read_as_it_was_written() {
    let keys = BucketKeys::new("navlock", "my app/1");
    let long = "n".repeat(1 << 20);
    let names = [
        of(""),
        of("db"),
        of("a/b"),
        of("a%2fb"),
        of("#"),
        of("\0"),
        of("ö"),
        of(&long),
        name(&[0xD800]),
        name(&[0xDFFF, 0x61]),
    ];
    for (nth, name) in names.iter().enumerate() {
        for mode in [Mode::Exclusive, Mode::Shared] {
            for phase in [Phase::Held, Phase::Queued] {
                let key = NameKey::new(name);
                let request = RequestKey { owner: u128::MAX / 3, slot: [0, 7, u64::MAX][nth % 3] };
                let written = keys.name(&key).request(phase, mode, request);
                let read = keys.parse(&written).unwrap();
                assert_eq!(read, LockKey { name: key.clone(), phase, mode, request });
                let expected = (name.as_bytes().len() <= LONGEST).then(|| name.clone());
                assert_eq!(read.name.name(), expected);
                assert_eq!(read.name.is_hash(), expected.is_none());
            }
        }
    }
}

#[test]
fn no_prefix_has_the_keys_of_another() {
    let hostile = ["", "a", "a/", "a/l", "a/l/b", "%", "%2f", "#", "/", "h", "q", "a/1/b"];
    let mut prefixes = Vec::new();
    for namespace in hostile {
        for bucket in hostile {
            let keys = BucketKeys::new(namespace, bucket);
            prefixes.push(keys.all());
            for name in hostile {
                let name = keys.name(&NameKey::new(&of(name)));
                prefixes.extend([name.held(), name.queue()]);
            }
        }
    }
    for (nth, one) in prefixes.iter().enumerate() {
        for (mth, other) in prefixes.iter().enumerate() {
            // Those of a bucket begin with that of the bucket, which stands before them.
            let own = mth > nth && mth <= nth + 2 * hostile.len() && is_bucket(one);
            assert!(nth == mth || own || !other.starts_with(one), "{one:?} {other:?}");
        }
    }
}

fn is_bucket(prefix: &[u8]) -> bool {
    prefix.split(|&byte| byte == b'/').count() == 4
}

#[test]
fn foreign_keys_are_not_read() {
    let keys = BucketKeys::new("navlock", "b");
    let good = keys.name(&NameKey::new(&of("db"))).request(
        Phase::Held,
        Mode::Shared,
        RequestKey { owner: 1, slot: 2 },
    );
    assert!(keys.parse(&good).is_some());
    for cut in 0..good.len() {
        assert_eq!(keys.parse(&good[..cut]), None);
    }
    for foreign in ["", "navlock/6/b/l/db/h/x/+1-2", "navlock/6/b/l/db/h/z/1-2"] {
        assert_eq!(keys.parse(foreign.as_bytes()), None);
    }
    let more = [&*good, b"/x"].concat();
    assert_eq!(keys.parse(&more), None);
}

#[test]
fn a_mailbox_has_what_others_ask_and_what_its_thieves_have_done() {
    let keys = BucketKeys::new("navlock/b", "b").name(&NameKey::new(&of("db")));
    let (me, mailbox) = (u128::MAX - 7, BucketKeys::mailbox("navlock/b", u128::MAX - 7));
    let owned = keys.owned(me);
    assert_eq!(BucketKeys::asked(&owned).strip_prefix(&*mailbox), Some(&*owned));
    let thief = RequestKey { owner: me, slot: 1 };
    let lock = keys.request(Phase::Held, Mode::Exclusive, thief);
    let noted = [&*lock, b"/1f"].concat();
    let note = BucketKeys::stolen(&lock, thief, 31);
    assert_eq!(note.strip_prefix(&*mailbox), Some(&*noted));
    assert!(
        BucketKeys::is_in_mailbox("navlock/b", &note)
            && !BucketKeys::is_in_mailbox("navlock/b", &lock)
    );
}

#[test]
fn whose_a_name_is_stands_among_its_exclusive_locks() {
    let (bucket, name) = (BucketKeys::new("navlock", "b"), NameKey::new(&of("db")));
    let keys = bucket.name(&name);
    let owned = keys.owned(u128::MAX - 7);
    let request = RequestKey { owner: u128::MAX - 7, slot: 0 };
    let read = LockKey { name, phase: Phase::Owned, mode: Mode::Exclusive, request };
    assert_eq!(bucket.parse(&owned), Some(read));
    assert!(BucketKeys::may_say_whose(&owned));
    assert_eq!(keys.request(Phase::Owned, Mode::Exclusive, request), owned);
    let last = RequestKey { owner: u128::MAX, slot: u64::MAX };
    let (start, end) = keys.all_owned();
    assert!(keys.request(Phase::Held, Mode::Exclusive, last) < start);
    assert!(start < owned && owned < end && end < keys.end_of_held());
    assert!(owned.starts_with(&keys.held_exclusive()));
}

#[test]
fn the_queue_is_ones_own_and_that_of_others() {
    let keys = BucketKeys::new("navlock", "b").name(&NameKey::new(&of("db")));
    let is_in = |key: &Vec<u8>, ranges: &[(Vec<u8>, Vec<u8>)]| {
        ranges.iter().filter(|(start, end)| start <= key && key < end).count()
    };
    for owner in [0, 1, 15, 16, u128::MAX] {
        for other in [0, 1, 15, 16, u128::MAX] {
            for (mode, slot) in [(Mode::Exclusive, 0), (Mode::Shared, u64::MAX)] {
                let request = RequestKey { owner: other, slot };
                let key = keys.request(Phase::Queued, mode, request);
                let is_own = usize::from(owner == other);
                assert_eq!(is_in(&key, &keys.queue_of(owner)), is_own);
                assert_eq!(is_in(&key, &keys.queue_of_others(owner)), 1 - is_own);
            }
        }
    }
}

#[test]
fn the_range_of_the_held_locks_ends_before_the_queue() {
    let keys = BucketKeys::new("navlock", "b").name(&NameKey::new(&of("db")));
    let request = RequestKey { owner: u128::MAX, slot: u64::MAX };
    let last = keys.request(Phase::Held, Mode::Exclusive, request);
    assert!(keys.held() < last && last < keys.end_of_held());
    assert!(keys.end_of_held() < keys.queue());
}

#[test]
fn all_keys_have_the_present_format_and_no_other() {
    let bucket = BucketKeys::new("navlock", "b");
    let keys = bucket.name(&NameKey::new(&of("db")));
    let request = RequestKey { owner: 1, slot: 2 };
    let lock = keys.request(Phase::Held, Mode::Exclusive, request);
    let (asked, stolen) =
        (BucketKeys::asked(&keys.owned(1)), BucketKeys::stolen(&lock, request, 1));
    for key in [lock, keys.owned(1), asked, stolen, bucket.probe(7)] {
        assert_eq!(
            BucketKeys::format("navlock", &key).map(|format| format.to_string()),
            Some(FORMAT.to_owned())
        );
        let others = BucketKeys::other_formats("navlock");
        assert!(others.iter().all(|(begin, end)| !(begin..end).contains(&&key)), "{key:?}");
    }
    let others = BucketKeys::other_formats("navlock");
    for format in [1, 5, 7, 50, 60, 61] {
        let key = format!("navlock/{format}/b/").into_bytes();
        let is_other = others.iter().any(|(begin, end)| (begin..end).contains(&&key));
        assert!(is_other, "{format}");
    }
}
