use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Starts a peer's server, on a thread that lives as long as the tests.
fn serve(peer: Peer) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    if peer == Peer::Flock {
        let place = directory.path().to_owned();
        return (directory, place);
    }
    let place = directory.path().join("sock");
    let (ready, is_ready) = mpsc::channel();
    let at = place.clone();
    thread::spawn(move || peer.serve(&at, move || ready.send(()).unwrap()));
    is_ready.recv_timeout(LONG).unwrap();
    (directory, place)
}

#[test]
fn a_lock_is_granted_again_only_when_it_was_released() {
    for peer in [Peer::Navlock, Peer::NavlockAsking, Peer::Bare, Peer::Flock] {
        let (_directory, place) = serve(peer);
        let mut holder = peer.connect(Row::Acquire, &place, Turn::First).unwrap();
        holder.acquire().unwrap();
        let released = Arc::new(AtomicBool::new(false));
        let (waits, is_waiting) = mpsc::channel();
        let was_released = Arc::clone(&released);
        let waiter = thread::spawn(move || {
            let mut waiter = peer.connect(Row::Kill, &place, Turn::Second).unwrap();
            waiter.acquire_after(&mut || waits.send(()).map_err(io::Error::other)).unwrap();
            assert!(was_released.load(Ordering::SeqCst), "{peer:?} gave one lock twice");
            waiter.release().unwrap();
        });
        is_waiting.recv_timeout(LONG).unwrap();
        released.store(true, Ordering::SeqCst);
        holder.release().unwrap();
        waiter.join().unwrap();
        holder.acquire().unwrap();
    }
}

#[test]
fn two_in_a_relay_never_overtake_each_other() {
    const ENOUGH: usize = 200;
    let (_directory, place) = serve(Peer::Flock);
    let (held, log) = mpsc::channel();
    let runners = [Turn::First, Turn::Second].map(|turn| {
        let mut runner = Peer::Flock.connect(Row::Handover, &place, turn).unwrap();
        let held = held.clone();
        move || {
            for _ in 0..ENOUGH {
                runner.acquire().unwrap();
                held.send(turn).unwrap();
                runner.release().unwrap();
            }
        }
    });
    for runner in runners.map(thread::spawn) {
        runner.join().unwrap();
    }
    drop(held);
    let log: Vec<_> = log.iter().collect();
    assert_eq!(log.len(), 2 * ENOUGH);
    assert!(log.windows(2).all(|two| two[0] != two[1]));
}
