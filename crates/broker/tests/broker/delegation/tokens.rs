//! The fencing tokens of names that are owned.

use super::{EXCLUSIVE, Host, SHARED};
use navlock_delegation::Released;
use navlock_engine::RequestId;

#[test]
fn tokens_grow_whoever_takes_a_name_and_however() {
    let host = Host::start();
    let (mut one, mut two) = (host.owner(1), host.owner(2));
    let mut last = one.take_in(0, "db", EXCLUSIVE).1;
    let mut grows = |token| {
        assert!(token > last, "{token} after {last}");
        last = token;
    };
    for _ in 0..20 {
        for _ in 0..50 {
            assert_eq!(one.release(0), Released::Kept);
            grows(one.retake(0).unwrap());
        }
        assert_eq!(one.release(0), Released::Kept);
        let (request, token) = two.take_in(0, "db", EXCLUSIVE);
        grows(token);
        let asked = one.ask_in(0, "db", EXCLUSIVE);
        assert!(one.waits());
        assert_eq!(two.release(0), Released::Tell);
        two.finish(request);
        grows(one.granted_in_slot(asked));
        assert_eq!(one.release(0), Released::Tell);
        one.finish(asked);
        grows(one.take_in(0, "db", EXCLUSIVE).1);
    }
}

#[test]
fn a_client_that_takes_a_name_twice_in_a_row_gets_consecutive_tokens() {
    let host = Host::start();
    let (mut one, mut two) = (host.owner(1), host.owner(2));
    let (_, mut last) = one.take_in(0, "db", EXCLUSIVE);
    let (_, held) = two.take_in(2, "other", EXCLUSIVE);
    for _ in 0..3 {
        // The client has had to wait, so it holds the lock once and does not own the name.
        let asked = two.ask_in(0, "db", EXCLUSIVE);
        assert!(two.waits());
        assert_eq!(one.release(0), Released::Tell);
        one.finish(RequestId::from_parts(one.asked, one.asked.into()));
        let token = two.granted_in_slot(asked);
        assert!(token > last && token > held);
        assert_eq!(two.release(0), Released::Tell);
        two.finish(asked);
        let (_, next) = two.take_in(0, "db", EXCLUSIVE);
        assert_eq!(next.get(), token.get() + 1);
        assert_eq!(two.release(0), Released::Kept);
        // The client owns the name again. Its own next request recalls the name.
        assert!(two.retake(0).is_some());
        let again = two.ask_in(1, "db", EXCLUSIVE);
        assert!(two.waits());
        assert_eq!(two.release(0), Released::Tell);
        two.finish(RequestId::from_parts(two.asked - 1, (two.asked - 1).into()));
        assert_eq!(two.granted_in_slot(again).get(), next.get() + 2);
        assert_eq!(two.release(1), Released::Tell);
        two.finish(again);
        last = one.take_in(0, "db", EXCLUSIVE).1;
        assert!(last.get() > next.get() + 2);
    }
}

#[test]
fn a_moment_by_the_daemons_epoch_is_a_token_between_earlier_and_later_ones() {
    let host = Host::start();
    let mut owner = host.owner(1);
    let mut last = 0;
    for _ in 0..100 {
        let (request, token) = owner.take_in(0, "db", SHARED);
        assert!(token.get() > last);
        assert_eq!(owner.release(0), Released::Kept);
        last = owner.epoch.wrapping_add(now());
        assert!(last > token.get());
        owner.slot(0).word().clear();
        owner.finish(request);
    }
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap();
    seconds * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
