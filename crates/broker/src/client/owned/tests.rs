use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Wake,
};

use navlock_delegation::{OwnerMap, Recalled};
use tempfile::NamedTempFile;

use super::*;

const EXCLUSIVE: RequestKind = RequestKind::Wait(Mode::Exclusive);
const SHARED: RequestKind = RequestKind::Wait(Mode::Shared);

/// The names that a client owns. The test does in the client's map what the daemon would do.
struct Case {
    owned: Owned,
    _file: NamedTempFile,
    next: u64,
}

fn agent(index: u32) -> AgentId {
    AgentId::from_index(index)
}

fn named(name: &str) -> ResourceName {
    name.try_into().unwrap()
}

impl Case {
    fn new() -> Self {
        let file = NamedTempFile::new().unwrap();
        let owned = Owned::new().unwrap();
        assert!(owned.slots().set_map(OwnerMap::make(file.as_file()).unwrap()));
        Self { owned, _file: file, next: 0 }
    }

    fn ask(&mut self, of: u32, name: &str, kind: RequestKind) -> (RequestId, Began) {
        let id = RequestId::from_parts(7, self.next);
        self.next += 1;
        let asked = Asked {
            id,
            agent: agent(of),
            client_id: ClientId::from_bytes([1; 16]),
            bucket: "app".into(),
            name: &named(name),
            kind,
            in_slot: true,
        };
        (id, self.owned.begin(&asked))
    }

    /// Grants a free slot, as the daemon does.
    fn grant(&self, index: SlotIndex, of: u32, name: &str, recalled: bool) -> Hold {
        let slot = self.owned.slot(index).unwrap();
        slot.word().grant(recalled).unwrap();
        let hold = self.owned.slots().granted(index).unwrap();
        self.owned.slots().end_wait(
            "app",
            agent(of),
            &named(name),
            slot.description().unwrap().mode,
        );
        hold
    }

    /// Has the agent own the name. Returns the request through which the agent got the name, and
    /// the name's slot.
    fn own(&mut self, of: u32, name: &str, kind: RequestKind) -> (RequestId, SlotIndex) {
        let (id, began) = self.ask(of, name, kind);
        let index = began.slot.unwrap();
        let hold = self.grant(index, of, name, false);
        assert!(self.owned.slots().finish_first(hold));
        (id, index)
    }

    fn take(&self, of: u32, name: &str, kind: RequestKind) -> Option<RequestId> {
        Some(self.owned.take("app", agent(of), &named(name), kind)?.ticket.id)
    }

    fn word(&self, index: SlotIndex) -> &navlock_delegation::Word {
        self.owned.slot(index).unwrap().word()
    }
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_name_that_was_released_is_taken_by_its_agent_in_its_mode_and_nobody_else() {
    let mut case = Case::new();
    case.own(0, "db", EXCLUSIVE);
    assert_eq!(case.take(1, "db", EXCLUSIVE), None);
    assert_eq!(case.take(0, "other", EXCLUSIVE), None);
    assert_eq!(case.take(0, "db", SHARED), None);
    assert_eq!(case.take(0, "db", RequestKind::Steal), None);
    let taken = case.take(0, "db", RequestKind::IfAvailable(Mode::Exclusive)).unwrap();
    assert_eq!(case.take(0, "db", EXCLUSIVE), None);
    assert_eq!(case.owned.lost(taken), None);
    assert_eq!(case.owned.release(taken), Released::Kept);
    let again = case.take(0, "db", EXCLUSIVE).unwrap();
    assert_ne!(again, taken);
    assert_eq!(case.owned.release(taken), Released::Gone);
    assert_eq!(case.owned.lost(again), None);
}

#[test]
fn nothing_is_taken_while_a_request_of_the_same_agent_for_it_waits() {
    let mut case = Case::new();
    let (first, index) = case.own(0, "db", SHARED);
    let reader = case.take(0, "db", SHARED).unwrap();
    let (_, more) = case.ask(0, "db", SHARED);
    assert_eq!(case.owned.release(reader), Released::Kept);
    assert_eq!(case.take(0, "db", SHARED), None);
    // The name is not given back for this request, because readers go on side by side.
    assert!(more.finished.is_empty() && more.is_counted);
    case.grant(more.slot.unwrap(), 0, "db", false);
    assert!(case.take(0, "db", SHARED).is_some());
    let slots = case.owned.slots();
    let taken = &slots.in_use[&index];
    assert!(taken.id == first && matches!(taken.stage, slots::Stage::Owned(_)));
}

#[test]
fn nothing_is_taken_past_who_waits_where_it_was_found_before() {
    for other in 0..2 {
        let mut case = Case::new();
        let (_, index) = case.own(0, "db", EXCLUSIVE);
        let found = case.take(0, "db", EXCLUSIVE).unwrap();
        assert_eq!(case.owned.release(found), Released::Kept);
        assert_eq!(case.word(index).recall(), Recalled::Free);
        case.owned.slots().give_back();
        // The agent owns the name again, in the same slot, while another request waits.
        let (_, again) = case.ask(0, "db", EXCLUSIVE);
        assert_eq!(again.slot, Some(index));
        case.ask(other, "db", EXCLUSIVE);
        let hold = case.grant(index, 0, "db", false);
        assert!(case.owned.slots().finish_first(hold));
        assert_eq!(case.take(0, "db", EXCLUSIVE), None);
        case.owned.slots().end_wait("app", agent(other), &named("db"), Mode::Exclusive);
        assert!(case.take(0, "db", EXCLUSIVE).is_some());
    }
}

#[test]
fn an_owned_name_that_excludes_a_request_is_given_back_before_the_request() {
    let mut case = Case::new();
    let (idle, index) = case.own(0, "db", SHARED);
    let (_, began) = case.ask(0, "db", EXCLUSIVE);
    assert_eq!(began.finished, [idle]);
    assert!(case.word(index).look().is_free());

    let (held, index) = case.own(0, "held", EXCLUSIVE);
    let taken = case.take(0, "held", EXCLUSIVE).unwrap();
    let (_, began) = case.ask(0, "held", EXCLUSIVE);
    assert!(began.finished.is_empty() && case.word(index).look().is_recalled());
    assert_eq!(case.owned.release(taken), Released::Tell);
    assert_eq!(case.owned.slots().finish(taken).0, Some(held));
    // The answer is given only once.
    assert_eq!(case.owned.slots().finish(taken).0, None);
}

#[test]
fn an_agent_takes_nothing_past_another_s_request_and_readers_pass_each_other() {
    let mut case = Case::new();
    let (first, index) = case.own(0, "db", SHARED);
    // The reader of another agent is not granted yet.
    let (_, reader) = case.ask(1, "db", SHARED);
    assert!(reader.finished.is_empty());
    let taken = case.take(0, "db", SHARED).unwrap();
    assert_eq!(case.owned.release(taken), Released::Kept);
    case.grant(reader.slot.unwrap(), 1, "db", false);

    let (_, more) = case.ask(0, "db", SHARED);
    let (_, writer) = case.ask(2, "db", EXCLUSIVE);
    assert_eq!(writer.finished, [first]);
    assert!(case.word(index).look().is_free());
    assert!(case.word(reader.slot.unwrap()).look().is_recalled());
    // The request before the writer is granted before the daemon has read of the writer.
    let granted = case.grant(more.slot.unwrap(), 0, "db", false);
    assert!(case.owned.slots().finish_first(granted));
    assert_eq!(case.take(0, "db", SHARED), None);
    case.owned.slots().end_wait("app", agent(2), &named("db"), Mode::Exclusive);
    assert!(case.take(0, "db", SHARED).is_some());
}

#[test]
fn a_recalled_name_is_asked_for_and_its_slot_is_used_again() {
    let mut case = Case::new();
    let (first, index) = case.own(0, "db", EXCLUSIVE);
    assert_eq!(case.word(index).recall(), Recalled::Free);
    assert_eq!(case.take(0, "db", EXCLUSIVE), None);
    let (_, began) = case.ask(0, "db", EXCLUSIVE);
    assert_eq!((began.slot, began.finished), (Some(index), vec![first]));
}

#[test]
fn a_slot_that_is_another_name_s_by_now_is_not_taken_for_the_one_that_was_found_there() {
    let mut case = Case::new();
    let (_, index) = case.own(0, "db", EXCLUSIVE);
    let taken = case.take(0, "db", EXCLUSIVE).unwrap();
    assert_eq!(case.owned.release(taken), Released::Kept);
    assert_eq!(case.word(index).recall(), Recalled::Free);
    case.owned.slots().give_back();
    // The same slot is used again.
    let (_, again) = case.own(0, "other", EXCLUSIVE);
    assert_eq!(again, index);
    assert_eq!(case.take(0, "db", EXCLUSIVE), None);
    assert!(case.take(0, "other", EXCLUSIVE).is_some());
}

#[test]
fn a_slot_of_an_aborted_request_is_used_again_when_it_cannot_be_granted_any_more() {
    let mut case = Case::new();
    let (_, began) = case.ask(0, "db", EXCLUSIVE);
    let index = began.slot.unwrap();
    case.owned.slots().abort(index, case.next);
    // The daemon granted the request while the abort was on its way.
    let _ = case.word(index).grant(false);
    let (later, other) = case.ask(0, "db", EXCLUSIVE);
    assert_ne!(other.slot, Some(index));
    assert_eq!(case.take(0, "db", EXCLUSIVE), None);
    case.owned.slots().answered(later.serial() - 1);
    assert!(case.word(index).look().is_held());
    case.owned.slots().answered(later.serial());
    assert_eq!(case.ask(0, "more", EXCLUSIVE).1.slot, Some(index));
    assert!(case.word(index).look().is_free());
}

#[test]
fn more_slots_are_asked_for_once_when_half_of_them_are_in_use() {
    let mut case = Case::new();
    let mut asks = |n: &u32| case.ask(0, &n.to_string(), EXCLUSIVE).1.wants_room;
    let asked: Vec<_> = (0..63).filter(|n| asks(n)).collect();
    assert_eq!(asked, [32]);
}

#[test]
fn with_all_slots_in_use_a_name_that_nobody_holds_is_given_back() {
    let mut case = Case::new();
    let names: Vec<_> = (0..63).map(|n| n.to_string()).collect();
    let ids: Vec<_> = names.iter().map(|name| case.own(0, name, EXCLUSIVE).0).collect();
    let held = case.take(0, "0", EXCLUSIVE).unwrap();
    let (_, began) = case.ask(0, "63", EXCLUSIVE);
    assert!(began.slot.is_some());
    assert_eq!(began.finished, [ids[1]]);
    assert_eq!(case.take(0, "1", EXCLUSIVE), None);
    assert_eq!(case.owned.release(held), Released::Kept);
    // If all slots are held, the request is made without a slot.
    let held: Vec<_> = names.iter().filter_map(|name| case.take(0, name, EXCLUSIVE)).collect();
    assert_eq!(held.len(), 62);
    let (_, began) = case.ask(0, "64", EXCLUSIVE);
    assert!(began.slot.is_none() && !began.is_counted && !began.wants_room);
    case.owned.grow();
    assert!(case.ask(0, "65", EXCLUSIVE).1.slot.is_some());
}

#[test]
fn a_loss_that_is_said_is_known_of_the_hold_that_it_concerns() {
    let mut case = Case::new();
    let (id, index) = case.own(0, "db", EXCLUSIVE);
    let taken = case.take(0, "db", EXCLUSIVE).unwrap();
    let counted = Arc::new(Counted::default());
    assert_eq!(case.owned.watch(taken, &Arc::clone(&counted).into()), None);
    let _ = case.word(index).steal();
    assert_eq!(case.owned.lost(taken), Some(Lost::Stolen));
    assert_eq!(case.owned.stolen_by(taken), None);
    let thief = ClientId::from_bytes([9; 16]);
    let mut wakers = Vec::new();
    case.owned.slots().lose_one(id, (Lost::Stolen, Some(thief)), &mut wakers);
    wakers.into_iter().for_each(Waker::wake);
    assert_eq!(counted.0.load(SeqCst), 1);
    // Meanwhile another name uses the slot, and the guard still exists.
    case.own(0, "other", EXCLUSIVE);
    assert_eq!(case.owned.lost(taken), Some(Lost::Stolen));
    assert_eq!(case.owned.stolen_by(taken), Some(thief));
    assert_eq!(case.owned.release(taken), Released::Gone);
    assert_eq!(case.owned.slots().finish(taken).0, None);
    assert!(case.owned.slots().notes.is_empty());
}

#[test]
fn the_end_of_an_agent_ends_its_own_locks_only() {
    let mut case = Case::new();
    case.own(0, "mine", EXCLUSIVE);
    case.own(1, "theirs", EXCLUSIVE);
    let mine = case.take(0, "mine", EXCLUSIVE).unwrap();
    let theirs = case.take(1, "theirs", EXCLUSIVE).unwrap();
    let counted = Arc::new(Counted::default());
    assert_eq!(case.owned.watch(mine, &Arc::clone(&counted).into()), None);
    let mut wakers = Vec::new();
    case.owned.slots().end_agent(agent(0), &mut wakers);
    assert_eq!(wakers.len(), 1);
    assert_eq!(case.owned.lost(mine), Some(Lost::Terminated));
    assert_eq!(case.owned.lost(theirs), None);
    assert_eq!(case.owned.release(mine), Released::Gone);
    assert_eq!(case.owned.slots().finish(mine).0, None);
    assert_eq!(case.take(0, "mine", EXCLUSIVE), None);
}

#[test]
fn on_a_new_connection_nothing_is_taken_and_what_is_held_is_claimed() {
    let mut case = Case::new();
    let (_, idle) = case.own(0, "idle", EXCLUSIVE);
    let (id, index) = case.own(0, "held", EXCLUSIVE);
    let (_, revoked) = case.own(0, "revoked", EXCLUSIVE);
    let (_, asked) = case.ask(0, "asked", EXCLUSIVE);
    let (first, began) = case.ask(0, "first", EXCLUSIVE);
    let not_finished = case.grant(began.slot.unwrap(), 0, "first", false);
    let held = case.take(0, "held", EXCLUSIVE).unwrap();
    let lost = case.take(0, "revoked", EXCLUSIVE).unwrap();
    for index in [not_finished.index, revoked] {
        let _ = case.word(index).revoke();
    }
    assert_eq!(case.owned.slots().come_back(&mut Vec::new()), [(first, Lost::Disconnected)]);
    assert_eq!(case.owned.lost(lost), Some(Lost::Disconnected));
    assert_eq!(case.take(0, "idle", EXCLUSIVE), None);
    for index in [idle, asked.slot.unwrap()] {
        assert!(case.word(index).look().is_free());
    }
    let claims = case.owned.slots().held();
    assert_eq!(claims.iter().map(|held| held.id).collect::<Vec<_>>(), [id]);
    assert_eq!(claims[0].token, case.owned.slot(index).unwrap().token(held.serial()));
    assert_eq!(case.owned.release(held), Released::Tell);
    assert_eq!(case.owned.slots().finish(held).0, Some(id));
}

#[test]
fn a_lock_of_a_replaced_map_is_not_taken_for_a_lock_of_the_next_map() {
    let mut case = Case::new();
    case.own(0, "db", EXCLUSIVE);
    let before = case.take(0, "db", EXCLUSIVE).unwrap();
    assert!(case.owned.slots().give_back().is_empty());
    case.owned.slots().retire();
    assert_eq!(case.ask(0, "other", EXCLUSIVE).1.slot, None);
    let file = NamedTempFile::new().unwrap();
    assert!(case.owned.slots().set_map(OwnerMap::make(file.as_file()).unwrap()));
    case.own(0, "other", EXCLUSIVE);
    let after = case.take(0, "other", EXCLUSIVE).unwrap();
    assert_ne!(before, after);
    assert_eq!((case.owned.lost(before), case.owned.lost(after)), (None, None));
    assert_eq!(case.owned.release(before), Released::Tell);
    assert!(case.owned.slots().finish(before).0.is_some());
    assert_eq!(case.owned.lost(after), None);
}

#[test]
fn readers_take_tokens_that_grow_beside_those_of_others() {
    let mut case = Case::new();
    case.own(0, "db", SHARED);
    let epoch = 1 << 40;
    case.owned.set_epoch(epoch);
    let before = epoch + clock::now();
    let Take { ticket, token, .. } =
        case.owned.take("app", agent(0), &named("db"), SHARED).unwrap();
    assert!((before..=epoch + clock::now()).contains(&token.get()));
    // A process that reads the map sees the same token.
    let slot = case.owned.slot_of(ticket.id).unwrap();
    assert_eq!(slot.token(ticket.id.serial()), token.get());
}
