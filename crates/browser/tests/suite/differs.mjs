// Where a browser differs from other reaches, test by test, and why.

// What cannot run, and is not run.
const threads = 'it needs a second thread, which the page does not have';
const blocking = 'it blocks its thread, which a page may not';
export const CANNOT = {
  'grant::several_names_are_taken_in_one_order': threads,
  'grant::losing_a_lock_ends_the_wait_for_another': threads,
  'grant::blocking_waits_for_its_turn': threads,
  'grant::blocking_within_blocking_wakes_both': threads,
  'grant::blocking_with_a_timeout_leaves_the_queue': blocking,
  'steal::a_victim_whose_callback_runs_is_dropped_where_it_waits': threads,
  'grant::a_callback_that_panics_releases': 'a panic ends the program there, and does not unwind',
};

// What is run and fails, as the browser has it otherwise: why, and what the failure says. One that says something
// else, or does not fail any more, is a failure as well.
const one_client = {
  why: 'all agents of a page are one client to the browser',
  says: /^ *left: \[([0-9a-f-]{36})(, \1)+\]$/m,
};
export const FAILS = {
  'snapshot::pending_is_in_the_order_of_the_grants': one_client,
  'snapshot::every_agent_has_one_client_id': one_client,
};

// The same where the browser breaks the specification, or what it promises.
const in_vain = /waited for 20s in vain/;
const rule_1 = { why: 'rule 1: Chromium does not process the queue when a request is aborted', says: in_vain };
export const CHROMIUM = {
  'queue::an_aborted_writer_lets_the_readers_behind_it_in': rule_1,
  'death::termination_ends_requests_then_locks_then_wakes': rule_1,
  'names::names_that_differ_in_a_lone_surrogate_are_different': { why: 'rule 23: Chromium takes a lone surrogate for U+FFFD', says: /^ *left: \["\u{10000}", "\ufffd"\]$/mu },
};
