//! The broker: whether it runs, its release, and how fast it answers.

use std::time::{Duration, Instant};

use navlock::{BrokerReach, Error, Reason, Status, UserAgent, blocking::block_on_timeout};
use navlock_broker::Control;

use super::{super::Context, Check};
use crate::{faults, settings, time::taken};

const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// How often the broker is asked. The number is odd, so that there is a median.
const ROUNDS: usize = 21;

/// An answer that takes longer than this is slow.
const SLOW: Duration = Duration::from_millis(10);

/// How long one answer may take. This is longer than a broker waits for its store, so that the broker
/// itself can say that the store does not answer.
const TIMEOUT: Duration = Duration::from_secs(8);

/// What to do if a broker cannot answer because its store does not answer.
const BEYOND: &str = "see below what the store of the settings is like; leave the broker alone, whose holders keep \
                      their locks for a while yet and would lose them with it";

pub(super) fn checks(context: &Context) -> Vec<Check> {
    let mut checks = running(context);
    // The machine's broker is another user's, and so is its directory for state.
    let state = settings::state_directory().filter(|_| !context.place.is_of_system());
    let faults = faults::known(state.as_deref(), &context.place);
    checks.extend(
        faults.iter().map(|found| Check::warn("faults", found.told()).remedy(found.remedy())),
    );
    checks
}

/// The broker that runs.
fn running(context: &Context) -> Vec<Check> {
    match Control::connect(&context.place) {
        Ok(mut control) => {
            let status = match control.status() {
                Ok(status) => status,
                Err(error) => return vec![Check::fail("broker", Error::from(error))],
            };
            let mut checks = vec![release(&status, context.place.is_of_system())];
            checks.extend(surroundings(&status));
            checks.push(match context.connect_to_running() {
                Ok(reach) => speed(&reach, status.reach.is_some()),
                Err(error) => Check::fail("answers", error),
            });
            checks
        }
        Err(error) if *error.reason() == Reason::NotRunning => {
            vec![Check::ok("broker", "not running; the next client that needs it starts it")]
        }
        Err(error) if *error.reason() == Reason::NoSystemBroker => {
            vec![Check::fail("broker", Reason::NoSystemBroker)]
        }
        // What is wrong with the place was said.
        Err(error)
            if matches!(error.reason(), Reason::Place(_)) && context.place.is_of_system() =>
        {
            Vec::new()
        }
        Err(error) => vec![Check::fail("broker", error)],
    }
}

fn release(Status { pid, release, .. }: &Status, is_of_system: bool) -> Check {
    if release == RELEASE {
        return Check::ok("broker", format!("process {pid}, release {RELEASE} as this navlock"));
    }
    let detail = format!("process {pid} is of release {release}, this navlock of {RELEASE}");
    let remedy = if is_of_system {
        "have an administrator start it anew (systemctl restart navlock); no lock is lost by that"
    } else {
        "when it suits, 'navlock daemon stop': the next one is of this release"
    };
    Check::warn("broker", detail).remedy(remedy)
}

/// The priorities and limits of the broker's process, if the broker tells them. They concern all
/// who use the broker.
fn surroundings(status: &Status) -> Option<Check> {
    if status.details.is_empty() {
        return None;
    }
    let binds = |(what, is): &&(String, String)| match &**what {
        "nice" | "OOM score adjustment" => is.parse().is_ok_and(|number: i32| number > 0),
        "scheduling" | "fencing tokens" => true,
        "limits" => ["CPU time", "address space", "bytes of data", "in a file"]
            .iter()
            .any(|limit| is.contains(limit)),
        _ => false,
    };
    let shown = |rows: &mut dyn Iterator<Item = &(String, String)>| {
        rows.map(|(what, is)| format!("{what}: {is}")).collect::<Vec<_>>().join("; ")
    };
    let bound = shown(&mut status.details.iter().filter(binds));
    let all = shown(&mut status.details.iter());
    Some(if bound.is_empty() {
        Check::ok("surroundings", all)
    } else {
        Check::warn("surroundings", bound).remedy(
            "the broker has it from whoever started it; 'navlock daemon stop', and have the next one \
             started without, as by contrib/systemd",
        )
    })
}

/// The time from a question to its answer. `is_beyond` says that the broker may have to ask a store.
fn speed(reach: &BrokerReach, is_beyond: bool) -> Check {
    // Nobody uses this bucket, so the answer is short.
    let locks = UserAgent::with_reach(reach.clone()).lock_manager("navlock doctor");
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let asked = Instant::now();
        match block_on_timeout(locks.query(), TIMEOUT) {
            Some(Ok(_)) => times.push(asked.elapsed()),
            Some(Err(error)) if is_beyond => return Check::fail("answers", error).remedy(BEYOND),
            Some(Err(error)) => return Check::fail("answers", error),
            None => {
                let detail = format!("none within {} s", TIMEOUT.as_secs());
                let remedy = if is_beyond { BEYOND } else { "end the broker if it is stuck" };
                return Check::fail("answers", detail).remedy(remedy);
            }
        }
    }
    times.sort();
    let median = times[ROUNDS / 2];
    let detail = format!("after {} (median of {ROUNDS})", taken(median));
    if median > SLOW {
        Check::warn("answers", detail).remedy("is the machine overloaded?")
    } else {
        Check::ok("answers", detail)
    }
}
