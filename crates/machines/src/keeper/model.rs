//! A model that tries every order of calls and faults, with the real code of the keeper.
//!
//! Machines with their own [`Keeper`](super::Keeper) share a store in memory. The explorer takes
//! each step that can come next: a call reaches the store, an answer or an event of a watch comes back,
//! or a fault happens. After each step, it checks whether the rules of the engine hold. It goes
//! [breadth-first](explore), and does not look again at states that it has seen. The scripts of the
//! machines and the number of faults bound a test. Within these bounds, the test sees all states.
//! Scenes with too many states for a test are [searched](search) at random, and `cargo xtask model`
//! explores them as far as there is time.
//!
//! # What it leaves out
//!
//! - Only operations are lost, late, or answered some time after they were done. All other calls are
//!   answered when they come to the store.
//! - A machine that has asked the owner of a name to give it up looks again only when nothing else happens. A
//!   query that has asked an owner looks again once after each revision.
//! - One bucket is used. There may be another bucket beside it that keeps a machine busy.
//! - A machine's clock goes on only when the machine is cut off and when nothing else happens. It has
//!   three moments: before its leases are over, between that and their end in the store, and after that. All
//!   clocks run at the same rate.
//! - A client that comes back takes what is found for it. The store does not lose its data.

mod explore;
mod memory;
mod scene;
mod script;
mod scripts;
mod search;
mod world;

use self::{
    scene::Scene,
    script::{Act, Faults},
    scripts::*,
};

const NONE: Faults = Faults {
    calls: 0,
    watches: 0,
    cuts: 0,
    notices: 0,
    kills: 0,
    revokes: 0,
    evictions: 0,
    pauses: 0,
    deaf: 0,
    stalls: 0,
};
const CALL: Faults = Faults { calls: 1, ..NONE };
const WATCH: Faults = Faults { watches: 1, ..NONE };
const CUT: Faults = Faults { cuts: 1, ..NONE };
const NOTICED_CUT: Faults = Faults { notices: 1, ..CUT };
const KILL: Faults = Faults { kills: 1, ..NONE };
const REVOKE: Faults = Faults { revokes: 1, ..NONE };
const EVICT: Faults = Faults { evictions: 1, ..NONE };
const PAUSE: Faults = Faults { pauses: 1, ..NONE };
const DEAF: Faults = Faults { deaf: 1, ..NONE };
const STALL: Faults = Faults { stalls: 1, ..NONE };
const STALL_AND_DEAF: Faults = Faults { stalls: 1, ..DEAF };

/// The scene of the test of this name in this module.
macro_rules! scene {
    ($name:ident, $scripts:expr, $faults:expr, $is_warm:expr, $owns:expr) => {
        Scene {
            // The name of the test has no crate before it.
            test: concat!(module_path!(), "::", stringify!($name)).split_once("::").map(|of| of.1),
            scripts: &$scripts,
            faults: $faults,
            is_warm: $is_warm,
            owns: $owns,
        }
    };
}

/// Makes a test of each line: the scripts, what goes wrong, and the least number of states, so that
/// it is noticed if the explorer does not explore any more. Machines that are cold know nothing yet
/// of the names that they use.
macro_rules! explore {
    ($owns:expr; $($name:ident: $scripts:expr, $faults:expr, $is_warm:expr, $least:expr;)*) => {$(
        #[test]
        fn $name() {
            explore::test(scene!($name, $scripts, $faults, $is_warm, $owns), $least);
        }
    )*};
}

const WARM: bool = true;
const COLD: bool = false;
/// A machine that releases a name and is alone at it becomes the owner, or never does.
const OWNED: bool = true;
const NOT_OWNED: bool = false;

explore! {
    NOT_OWNED;
    writers_exclude_each_other: [WRITER, WRITER], NONE, WARM, 4000;
    readers_and_writers_take_turns: [READS, READS, HOLDER], NONE, WARM, 1000;
    keys_are_used_again: [AGAIN, WRITER], NONE, WARM, 40_000;
    requests_of_one_machine_keep_their_order: [TWICE, HOLDER], NONE, WARM, 9000;
    a_thief_takes_it_from_whoever_holds: [WRITER, THIEF], NONE, WARM, 3000;
    a_thief_comes_before_whoever_is_next: [THIEF_AFTER, HOLDER], NONE, WARM, 1800;
    a_request_that_does_not_wait_leaves_nothing_behind: [WRITER, TRIER], NONE, WARM, 3000;
    calls_get_lost: [WRITER, HOLDER], CALL, WARM, 17_000;
    calls_of_a_thief_get_lost: [HOLDER, THIEF], CALL, WARM, 15_000;
    calls_of_a_thief_that_ends_get_lost: [HOLDER, THIEF_ENDS], CALL, WARM, 1000;
    nothing_is_left_of_calls_that_come_late: [LEAVES, HOLDER], CALL, WARM, 1000;
    nothing_is_left_of_calls_that_come_late_while_others_stay: [MOVES, HOLDER], CALL, WARM, 1000;
    calls_of_two_thieves_get_lost: [THIEF, THIEF], CALL, WARM, 1000;
    calls_that_do_not_wait_get_lost: [HOLDER, TRIER], CALL, WARM, 9000;
    watches_begin_anew: [WRITER, HOLDER], WATCH, WARM, 10_000;
    a_machine_is_cut_off: [WRITER, HOLDER], CUT, WARM, 12_000;
    a_holder_that_goes_on_after_a_kill_is_robbed: [HOLDER, THIEF], KILL, WARM, 3000;
    a_lock_is_taken_again_across_a_kill: [AGAIN, &[]], KILL, WARM, 3000;
    writers_new_to_the_name: [WRITER, WRITER], NONE, COLD, 1000;
    readers_new_to_the_name: [READS, READER], NONE, COLD, 250;
    a_reader_and_a_writer_new_to_the_name: [READER, HOLDER], NONE, COLD, 400;
    a_thief_new_to_the_name: [WRITER, THIEF], NONE, COLD, 1000;
    a_request_that_does_not_wait_of_a_machine_new_to_the_name: [WRITER, TRIER], NONE, COLD, 1000;
    watches_break_of_machines_new_to_the_name: [WRITER, HOLDER], WATCH, COLD, 1000;
}

explore! {
    OWNED;
    a_single_owner_gives_the_name_up: [AGAIN, HOLDER], NONE, WARM, 7000;
    a_single_owner_gives_the_name_to_a_request_that_does_not_wait: [AGAIN, TRIER], NONE, WARM, 42_000;
    a_single_owner_is_robbed: [AGAIN, THIEF], NONE, WARM, 51_000;
    two_want_to_own_a_name: [WRITER, WRITER], NONE, WARM, 6000;
    readers_of_a_single_owner: [READER_AGAIN, READS], NONE, WARM, 1700;
    calls_of_a_single_owner_get_lost: [WRITER, HOLDER], CALL, WARM, 17_000;
    watches_of_a_single_owner_begin_anew: [WRITER, HOLDER], WATCH, WARM, 19_000;
    a_single_owner_is_cut_off: [WRITER, HOLDER], CUT, WARM, 38_000;
    a_single_owner_is_killed: [AGAIN, &[]], KILL, WARM, 17_000;
    a_single_owner_new_to_the_name: [AGAIN, HOLDER], NONE, COLD, 9000;
    several_are_next: [SHORT_RUN, HOLDER], NONE, WARM, 34_000;
    a_single_owner_that_is_deaf: [AGAIN, HOLDER], DEAF, WARM, 7000;
    a_single_owner_that_is_deaf_is_robbed: [HOLDS_AGAIN, ROBBER], DEAF, WARM, 2600;
    a_single_owner_whose_writes_wait_is_robbed: [HOLDS_AGAIN, ROBBER], STALL, WARM, 2600;
    a_single_owner_is_looked_at: [HOLDS_AGAIN, LOOKER], NONE, WARM, 100;
    a_name_that_becomes_owned_is_looked_at: [WRITER, LOOKER], NONE, WARM, 100;
}

/// Makes a test of each line: the scripts, what goes wrong, and the number of random runs. There are too
/// many states for a test to explore all of them. By hand, `NAVLOCK_MODEL_RUNS` makes more runs, and
/// `cargo xtask model` explores each scene.
macro_rules! search {
    ($owns:expr, $exhaustive:ident; $($name:ident: $scripts:expr, $faults:expr, $runs:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let test = concat!("keeper::model::", stringify!($name));
                search::search(test, $runs, |random| search::run(random, &$scripts, $faults, $owns));
            }
        )*

        mod $exhaustive {
            mod warm {
                use super::super::*;

                $(go_far!($name: $scripts, $faults, WARM, $owns);)*
            }

            mod cold {
                use super::super::*;

                $(go_far!($name: $scripts, $faults, COLD, $owns);)*
            }
        }
    };
}

/// Makes an ignored test, which explores without a bound.
macro_rules! go_far {
    ($name:ident: $scripts:expr, $faults:expr, $is_warm:expr, $owns:expr) => {
        #[test]
        #[ignore = "it may take hours: cargo xtask model"]
        fn $name() {
            explore::go_far(scene!($name, $scripts, $faults, $is_warm, $owns));
        }
    };
}

search! {
    NOT_OWNED, exhaustive;
    readers_of_two_machines_behind_a_writer: [WRITER, READS, READS], NONE, 300;
    three_writers: [WRITER, WRITER, WRITER], NONE, 300;
    readers: [READER, READER, WRITER], NONE, 300;
    readers_beside_a_writer_that_gives_up: [READS, WRITER, READER, READS], NONE, 300;
    a_thief_among_those_who_wait: [WRITER, THIEF, WRITER], NONE, 300;
    lost_calls_of_readers: [READER, WRITER, READER], CALL, 300;
    lost_calls_with_keys_used_again: [AGAIN, HOLDER], CALL, 300;
    calls_lost_around_a_cut: [HOLDER, WRITER], Faults { calls: 1, ..CUT }, 300;
    calls_lost_around_a_kill: [HOLDER, WRITER], Faults { calls: 1, ..KILL }, 300;
    a_process_is_killed: [HOLDER, WRITER], KILL, 1000;
    a_name_is_forgotten_and_used_again: [AGAIN, HOLDER], PAUSE, 1000;
    a_kill_of_one_with_two_requests: [TWICE, HOLDER], KILL, 300;
    a_kill_and_a_cut: [HOLDER, WRITER], Faults { kills: 1, ..CUT }, 1000;
    a_machine_is_cut_off_for_a_moment: [HOLDER, WRITER], NOTICED_CUT, 300;
    a_watch_begins_anew_after_a_cut: [HOLDER, WRITER], Faults { watches: 1, ..NOTICED_CUT }, 300;
    a_kill_and_a_noticed_cut: [HOLDER, WRITER], Faults { kills: 1, ..NOTICED_CUT }, 1000;
    somebody_removes_a_key: [CROWD, READER, WRITER], EVICT, 300;
    somebody_removes_a_key_while_a_watch_is_away: [WRITER, READER], Faults { watches: 1, ..EVICT }, 300;
    a_crowd_of_one_machine: [CROWD, WRITER], NONE, 300;
    a_crowd_that_is_deaf: [CROWD, WRITER], DEAF, 300;
    a_crowd_that_is_deaf_and_calls_get_lost: [CROWD, READER], Faults { calls: 1, ..DEAF }, 300;
    a_lease_of_a_crowd_is_ended: [CROWD, WRITER], REVOKE, 300;
    a_lease_is_ended_and_another_has_more: [BESIDE], REVOKE, 300;
    a_reclaimed_lease_is_ended_and_others_have_another: [BESIDE], Faults { kills: 1, ..REVOKE }, 1000;
    an_agent_with_a_lock_describes_itself_again: [DESCRIBED, WRITER], NONE, 300;
    an_agent_ends_and_another_has_the_same_lease: [ENDS, WRITER], NONE, 300;
    an_agent_ends_and_a_call_is_lost: [ENDS, WRITER], CALL, 300;
    an_agent_ends_before_its_process_is_killed: [ENDS, WRITER], KILL, 300;
    a_call_is_lost_and_its_name_is_forgotten: [AGAIN, WRITER], Faults { calls: 1, ..PAUSE }, 300;
    a_process_is_killed_and_its_names_are_forgotten: [ENDS, WRITER], Faults { kills: 1, ..PAUSE }, 300;
    a_lease_of_a_crowd_is_ended_and_a_call_is_lost: [CROWD, WRITER], Faults { calls: 1, ..REVOKE }, 300;
}

search! {
    OWNED, exhaustive_owned;
    a_crowd_of_an_owner: [CROWD_AGAIN, WRITER], NONE, 1000;
    a_crowd_of_an_owner_and_readers: [CROWD_AGAIN, READER, READER], NONE, 300;
    a_crowd_of_an_owner_is_robbed: [CROWD_AGAIN, THIEF], NONE, 1000;
    a_crowd_of_an_owner_and_who_does_not_wait: [CROWD_AGAIN, TRIER], NONE, 300;
    a_crowd_of_an_owner_and_many_who_do_not_wait: [CROWD_AGAIN, TRIERS, TRIER], CALL, 300;
    readers_of_an_owner_and_many_who_do_not_wait: [READERS_AGAIN, TRIERS], CALL, 300;
    two_crowds_that_own: [CROWD_AGAIN, CROWD_AGAIN], NONE, 1000;
    calls_of_owners_get_lost: [CROWD_AGAIN, WRITER], Faults { calls: 2, ..NONE }, 1000;
    calls_of_owners_get_lost_and_one_is_robbed: [CROWD_AGAIN, THIEF], CALL, 1000;
    watches_of_owners_begin_anew: [CROWD_AGAIN, WRITER], Faults { calls: 1, ..WATCH }, 300;
    an_owner_is_cut_off: [CROWD_AGAIN, WRITER], CUT, 1000;
    an_owner_is_cut_off_for_a_moment: [CROWD_AGAIN, WRITER], NOTICED_CUT, 1000;
    an_owner_is_killed: [CROWD_AGAIN, WRITER], KILL, 1000;
    an_owner_is_killed_and_calls_get_lost: [CROWD_AGAIN, WRITER], Faults { calls: 1, ..KILL }, 1000;
    an_owner_of_readers_is_killed: [READERS_AGAIN, WRITER], KILL, 1000;
    the_lease_of_an_owner_is_ended: [CROWD_AGAIN, WRITER], REVOKE, 1000;
    an_owner_has_agents_of_another_lease: [RECLAIMED_BESIDE, WRITER], KILL, 1000;
    an_owner_has_agents_of_another_lease_that_ends: [RECLAIMED_BESIDE, WRITER], Faults { revokes: 1, ..KILL }, 1000;
    somebody_removes_the_key_of_an_owner: [CROWD_AGAIN, WRITER], EVICT, 1000;
    an_owner_does_nothing_for_a_while: [CROWD_AGAIN, WRITER], PAUSE, 1000;
    several_of_one_machine_are_next: [RUN, WRITER], NONE, 1000;
    several_of_two_machines_are_next: [RUN, RUN], NONE, 1000;
    several_are_next_and_another_reads: [RUN, READER], NONE, 300;
    several_are_next_and_one_is_robbed: [RUN, THIEF], NONE, 1000;
    several_are_next_and_one_steals: [CROWD_THIEF, WRITER], NONE, 1000;
    several_are_next_and_another_does_not_wait: [RUN, TRIER], NONE, 300;
    calls_of_a_run_get_lost: [RUN, WRITER], Faults { calls: 2, ..NONE }, 1000;
    watches_of_a_run_begin_anew: [RUN, WRITER], Faults { calls: 1, ..WATCH }, 1000;
    a_run_is_cut_off: [RUN, WRITER], CUT, 1000;
    a_run_is_cut_off_for_a_moment: [RUN, WRITER], NOTICED_CUT, 1000;
    a_run_is_deaf: [RUN, WRITER], DEAF, 1000;
    a_run_is_killed: [RUN, WRITER], Faults { calls: 1, ..KILL }, 1000;
    the_lease_of_a_run_is_ended: [RUN, WRITER], REVOKE, 1000;
    somebody_removes_a_request_of_a_run: [RUN, WRITER], EVICT, 1000;
    a_run_does_nothing_for_a_while: [RUN, WRITER], PAUSE, 300;
    an_agent_of_a_run_ends: [CROWD_ENDS, WRITER], CALL, 1000;
    an_owner_is_deaf: [CROWD_AGAIN, HOLDER], DEAF, 1000;
    an_owner_that_is_deaf_is_robbed: [HOLDS_AGAIN, ROBBER, ROBBER], DEAF, 1000;
    an_owner_that_is_deaf_is_robbed_and_calls_get_lost: [CROWD_AGAIN, ROBBER], Faults { calls: 2, ..DEAF }, 1000;
    an_owner_that_is_deaf_is_cut_off: [HOLDS_AGAIN, ROBBER], Faults { cuts: 1, ..DEAF }, 1000;
    an_owner_is_killed_and_its_heir_is_deaf: [HOLDS_AGAIN, ROBBER], Faults { kills: 1, ..DEAF }, 1000;
    an_owner_whose_writes_wait_is_robbed: [CROWD_AGAIN, ROBBER], Faults { calls: 1, ..STALL_AND_DEAF }, 1000;
    an_owner_whose_writes_wait: [CROWD_AGAIN, HOLDER], STALL_AND_DEAF, 1000;
    owners_are_looked_at: [CROWD_AGAIN, WRITER, LOOKER], NONE, 1000;
    two_crowds_that_own_are_looked_at: [CROWD_AGAIN, CROWD_AGAIN, LOOKER], NONE, 300;
    an_owner_that_has_more_is_looked_at: [LOOKED_AT, LOOKER, LOOKER], NONE, 1000;
    a_run_is_looked_at: [RUN, WRITER, LOOKER], NONE, 300;
    two_thieves_rob_an_owner_that_is_deaf: [CROWD_AGAIN, ROBBER, ROBBER], Faults { calls: 1, ..DEAF }, 1000;
}

/// The scripts and the faults are drawn at random as well.
#[test]
fn anything_may_happen() {
    search::search("keeper::model::anything_may_happen", 2000, |random| {
        let (scripts, faults) = search::scenario(random);
        let scripts: Vec<&[Act]> = scripts.iter().map(Vec::as_slice).collect();
        let owns = search::coin(random);
        search::run(random, &scripts, faults, owns)
    });
}
