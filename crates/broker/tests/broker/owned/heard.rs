//! Messages that have come, and the threads that read them.

use super::*;

#[test]
fn a_caller_reads_pending_messages_while_the_reading_thread_is_busy() {
    let mut played = Played::owning(&[]);
    // A lock that was granted without a slot, so that its loss is told by a message alone.
    let mut request = Box::pin(played.locks.lock("db").into_future());
    assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let db = asked_for(&mut played.broker);
    let token = FencingToken::new(500);
    played.broker.raw.say(&[FromDaemon::Granted { request: db, token, in_slot: false }]);
    let guard = soon(request).unwrap();

    let (called, is_called) = mpsc::channel();
    let (keep, gate) = mpsc::channel();
    let waker = Arc::new(Gated { called, gate: Mutex::new(gate) }).into();
    let mut other = Box::pin(played.locks.lock("other").into_future());
    assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let request = asked_for(&mut played.broker);
    played.broker.raw.say(&[FromDaemon::Granted { request, token, in_slot: false }]);
    is_called.recv_timeout(LONG).unwrap();

    let how = (Lost::Stolen, None);
    played.broker.raw.say(&[FromDaemon::Lost { request: db, how }]);
    assert!(!guard.is_lost());
    played.reach.read_pending();
    assert!(guard.is_lost());
    drop(keep);
}

#[test]
fn a_caller_reads_pending_messages_while_another_thread_waits_for_them() {
    let mut played = Played::owning(&[]);
    for _ in 0..100 {
        let mut request = Box::pin(played.locks.lock("db").into_future());
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let db = asked_for(&mut played.broker);
        let token = FencingToken::new(500);
        played.broker.raw.say(&[FromDaemon::Granted { request: db, token, in_slot: false }]);
        let guard = soon(request).unwrap();
        let how = (Lost::Stolen, None);
        played.broker.raw.say(&[FromDaemon::Lost { request: db, how }]);
        let began = Instant::now();
        played.reach.read_pending();
        // If another thread reads, the call does not wait long for it.
        assert!(guard.is_lost() || began.elapsed() >= std::time::Duration::from_millis(500));
        while !guard.is_lost() {
            assert!(began.elapsed() < LONG);
            thread::yield_now();
        }
    }
}

/// The next request, whatever other messages come before it.
fn asked_for(broker: &mut PlayedBroker) -> RequestId {
    let (request, _) = broker.raw.receive_until(|message| match message {
        ToDaemon::Request { request, .. } => Some(*request),
        _ => None,
    });
    request
}
