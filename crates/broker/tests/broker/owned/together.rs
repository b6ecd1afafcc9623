//! Several clients of a daemon that lets clients own names.

use super::*;

/// A daemon that lets its clients own names.
struct OwningDaemon(tempfile::TempDir);

impl OwningDaemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        let (ready, is_ready) = mpsc::channel();
        // The daemon ends when its directory is removed.
        thread::spawn(move || {
            let user_agent = |first| Ok(daemon::user_agent(first));
            daemon::run(&place, user_agent, &Options::default(), || _ = ready.send(()))
        });
        is_ready.recv_timeout(LONG).unwrap();
        Self(directory)
    }

    fn reach(&self) -> BrokerReach {
        connect(&Place::at(self.0.path().join("sock")))
    }
}

#[test]
fn agents_and_threads_of_one_client_exclude_each_other() {
    let daemon = OwningDaemon::start();
    let reach = daemon.reach();
    let agents = [(); 3].map(|()| lock_manager(&reach));
    own(&reach, &agents[0], "db", Mode::Exclusive);
    let counter = AtomicU32::new(0);
    thread::scope(|scope| {
        for locks in agents.iter().flat_map(|locks| [locks; 3]) {
            scope.spawn(|| {
                for turn in 0..100 {
                    let guard = soon(locks.lock("db")).unwrap();
                    let seen = counter.load(Relaxed);
                    if turn % 10 == 0 {
                        thread::yield_now();
                    }
                    counter.store(seen + 1, Relaxed);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(counter.into_inner(), 900);
    assert!(soon(agents[0].query()).unwrap().held.is_empty());
}

#[test]
fn readers_of_one_client_read_beside_each_other_and_a_writer_gets_in() {
    let daemon = OwningDaemon::start();
    let (reach, others) = (daemon.reach(), lock_manager(&daemon.reach()));
    let locks = lock_manager(&reach);
    own(&reach, &locks, "db", Mode::Shared);
    let read = || soon(locks.lock("db").shared()).unwrap();
    let (one, other) = (read(), read());
    assert!(soon(others.lock("db").if_available()).unwrap().is_none());
    drop((one, other));
    let mut writer = pin!(others.lock("db").into_future());
    let reader = read();
    assert!(writer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let seen = || soon(others.query()).unwrap().pending.len();
    assert_eq!(seen(), 1);
    // From here on no reader overtakes the writer.
    let mut late = pin!(locks.lock("db").shared().into_future());
    assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(reader);
    let writer = soon(writer).unwrap();
    let token = writer.fencing_token();
    drop(writer);
    assert!(soon(late).unwrap().fencing_token() > token);
}

#[test]
fn more_names_than_there_are_slots_go_on_being_locked() {
    let daemon = OwningDaemon::start();
    let reach = daemon.reach();
    let locks = lock_manager(&reach);
    for _ in 0..3 {
        for name in 0..2000 {
            drop(soon(locks.lock(name.to_string())).unwrap());
        }
    }
    assert!((500..=1023).contains(&reach.owned()), "{}", reach.owned());
    assert!(soon(locks.query()).unwrap().held.is_empty());
    let held: Vec<_> =
        (0..2000).map(|name: u32| soon(locks.lock(name.to_string())).unwrap()).collect();
    assert_eq!(soon(locks.query()).unwrap().held.len(), 2000);
    drop(held);
    assert!(soon(locks.query()).unwrap().held.is_empty());
}

#[test]
fn tokens_grow_from_one_owner_to_the_next() {
    let daemon = OwningDaemon::start();
    let reaches = [daemon.reach(), daemon.reach()];
    let clients = reaches.each_ref().map(lock_manager);
    let mut last = FencingToken::new(0);
    for turn in 0..40 {
        for locks in &clients {
            for _ in 0..turn {
                let guard = soon(locks.lock("db")).unwrap();
                assert!(guard.fencing_token() > last);
                last = guard.fencing_token();
            }
        }
    }
}

#[test]
fn an_agent_that_has_ended_takes_nothing_and_its_name_is_free() {
    let daemon = OwningDaemon::start();
    let reach = daemon.reach();
    let (locks, others) = (lock_manager(&reach), lock_manager(&reach));
    own(&reach, &locks, "db", Mode::Exclusive);
    let guard = soon(locks.lock("db")).unwrap();
    locks.terminate();
    assert!(guard.is_lost());
    assert_eq!(soon(guard.lost()), Lost::Terminated);
    assert_eq!(soon(locks.lock("db")).unwrap_err(), Error::Terminated);
    let next = soon(others.lock("db")).unwrap();
    drop(guard);
    assert!(!next.is_lost());
    own(&reach, &others, "more", Mode::Exclusive);
    drop((locks, next, others));
    let last = lock_manager(&daemon.reach());
    assert!(soon(last.lock("more").if_available()).unwrap().is_some());
}

#[test]
fn a_name_that_is_owned_is_granted_after_what_its_agent_has_requested_before() {
    let daemon = OwningDaemon::start();
    let reach = daemon.reach();
    let locks = lock_manager(&reach);
    let mut context = Context::from_waker(Waker::noop());
    for if_available in [false, true] {
        let hot = if if_available { "hot" } else { "warm" };
        own(&reach, &locks, hot, Mode::Exclusive);
        let options = LockOptions { if_available, ..LockOptions::default() };
        let holder = lock_manager(&daemon.reach());
        let held = soon(holder.lock("new").into_future()).unwrap();
        // A lock that is not free must not be waited for, if somebody only asks whether it is free.
        let held = if_available.then_some(held);
        let mut new = pin!(locks.lock_with("new", options).into_future());
        assert!(new.as_mut().poll(&mut context).is_pending());
        let mut hot = pin!(locks.lock(hot).into_future());
        if hot.as_mut().poll(&mut context).is_ready() {
            assert!(new.as_mut().poll(&mut context).is_ready(), "it was overtaken");
        } else {
            drop(soon(hot).unwrap());
            drop(soon(new));
        }
        drop(held);
    }
}

#[test]
fn an_owned_name_overtakes_a_request_that_waits() {
    let daemon = OwningDaemon::start();
    let (reach, holder) = (daemon.reach(), lock_manager(&daemon.reach()));
    let locks = lock_manager(&reach);
    let mut context = Context::from_waker(Waker::noop());
    let _held = soon(holder.lock("busy").into_future()).unwrap();
    let mut waits = pin!(locks.lock("busy").into_future());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    // It is told that the request waits when it is granted something else, and owns names from then on.
    own(&reach, &locks, "hot", Mode::Exclusive);
    let mut hot = pin!(locks.lock("hot").into_future());
    assert!(hot.as_mut().poll(&mut context).is_ready());
    assert!(waits.as_mut().poll(&mut context).is_pending());
}

#[test]
fn a_list_of_locks_grows_before_it_is_full() {
    let daemon = OwningDaemon::start();
    let (reach, clients) = (daemon.reach(), daemon.0.path().join("sock.clients"));
    let locks = lock_manager(&reach);
    own(&reach, &locks, "db", Mode::Exclusive);
    let length = || {
        let files = fs::read_dir(&clients).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).max().unwrap()
    };
    let before = length();
    let names: Vec<_> = (0..40).map(|n| n.to_string()).collect();
    let _held: Vec<_> = names.iter().map(|name| soon(locks.lock(name.as_str())).unwrap()).collect();
    eventually("there is more room", || length() > before);
}
