//! Names that nobody holds or waits for any more leave nothing behind.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use navlock_engine::{AgentId, LockManager, Mode, RequestId, RequestKind, ResourceName};

const AGENT: AgentId = AgentId::from_index(0);
const NAMES: usize = 1_000_000;

#[test]
fn a_million_names_one_after_the_other_leave_nothing_behind() {
    let mut locks = LockManager::default();
    // The tables that are kept for the next lock.
    let id = request(&mut locks, 0);
    release(&mut locks, id);

    let before = allocated();
    for number in 0..NAMES {
        let id = request(&mut locks, number);
        release(&mut locks, id);
    }
    assert_eq!(allocated(), before);
}

#[test]
fn a_million_names_at_once_leave_nothing_behind() {
    let mut locks = LockManager::default();
    let id = request(&mut locks, 0);
    release(&mut locks, id);

    let before = allocated();
    let ids: Vec<_> = (0..NAMES).map(|number| request(&mut locks, number)).collect();
    assert!(allocated() > before + NAMES, "the allocator counts");
    for id in ids {
        release(&mut locks, id);
    }
    assert!(allocated() <= before, "{} bytes, {before} before", allocated());
}

#[test]
fn short_names_leave_nothing_behind_but_the_last() {
    let mut locks = LockManager::default();
    let last = ask(&mut locks, &short(0));
    release(&mut locks, last);

    let before = allocated();
    for number in 0..NAMES {
        let id = ask(&mut locks, &short(number));
        release(&mut locks, id);
    }
    assert_eq!((locks.names_known(), allocated()), (1, before));

    let ids: Vec<_> = (0..NAMES).map(|number| ask(&mut locks, &short(number))).collect();
    assert!(allocated() > before + NAMES, "the allocator counts");
    for id in ids {
        release(&mut locks, id);
    }
    assert!(allocated() <= before, "{} bytes, {before} before", allocated());
    assert!(locks.names_known() <= 1);
}

#[test]
fn many_agents_at_once_leave_nothing_behind() {
    const AGENTS: u32 = 100_000;
    let mut locks = LockManager::default();
    let name = ResourceName::try_from("db").expect("no hyphen");
    let asks = |locks: &mut LockManager, number| {
        locks.request_lock(AgentId::from_index(number), &name, RequestKind::Wait(Mode::Exclusive));
        take_events(locks);
    };
    asks(&mut locks, 0);
    let before = allocated();
    // A large number costs no more than a small one.
    asks(&mut locks, u32::MAX);
    assert!(allocated() < before + 1_000, "{} bytes, {before} before", allocated());

    (1..AGENTS).for_each(|number| asks(&mut locks, number));
    assert!(allocated() > before + AGENTS as usize, "the allocator counts");
    for number in (0..AGENTS).chain([u32::MAX]) {
        locks.terminate_remaining_locks_and_requests(&[AgentId::from_index(number)]);
        take_events(&mut locks);
    }
    assert!(allocated() <= before, "{} bytes, {before} before", allocated());
}

/// Asks for a name of this number, too long to be kept without an allocation.
fn request(locks: &mut LockManager, number: usize) -> RequestId {
    ask(locks, &ResourceName::try_from(format!("{number:064}")).expect("no hyphen"))
}

/// A name of this number that is kept without an allocation.
fn short(number: usize) -> ResourceName {
    ResourceName::try_from(number.to_string()).expect("no hyphen")
}

fn ask(locks: &mut LockManager, name: &ResourceName) -> RequestId {
    let id = locks.request_lock(AGENT, name, RequestKind::Wait(Mode::Exclusive));
    take_events(locks);
    id
}

fn release(locks: &mut LockManager, id: RequestId) {
    locks.release_lock(id);
    take_events(locks);
}

fn take_events(locks: &mut LockManager) {
    while locks.poll_event().is_some() {}
}

/// How many bytes this thread has allocated and not freed; each test is a thread of its own.
fn allocated() -> usize {
    ALLOCATED.get()
}

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it is. Counting beside it neither allocates
// nor panics: the counter is made at compile time, is never dropped, and wraps around.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add(layout.size()));
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.set(ALLOCATED.get().wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }
}
