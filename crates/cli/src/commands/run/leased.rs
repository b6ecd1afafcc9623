//! What differs for locks that machines share.

use std::time::Duration;

use navlock::{BrokerReach, LockGuard, blocking::block_on};

use super::{
    RunArgs,
    supervise::{GRACE, margin, reserve},
};
use crate::{
    args::OnLost,
    exit::{self, Failure},
};

/// Refuses what needs processes of this machine for locks that machines share.
///
/// # Errors
///
/// If machines share the locks.
pub(super) fn refuse_where_leased(reach: &BrokerReach, args: &RunArgs) -> Result<(), Failure> {
    let Some(shared) = block_on(reach.status())?.reach else { return Ok(()) };
    let (flag, why) = if args.replace {
        ("--replace", "the command that holds one may be on another machine; use --steal")
    } else {
        // Such locks end with a lease, and then somebody has to end the command.
        (
            "-F",
            "when one is lost, the command has to be told, and with -F there is nobody who could; leave it out",
        )
    };
    Err(Failure::new(
        exit::USAGE,
        format_args!("{flag} cannot be used with locks that machines share ({shared}): {why}"),
    ))
}

/// How long the command may take to end after a lock is lost.
///
/// # Errors
///
/// If a grace was given, the command has to be ended after a loss, and another client could be granted
/// the lock before the grace is over.
pub(super) fn grace(args: &RunArgs, guards: &[LockGuard]) -> Result<Duration, Failure> {
    let Some(grace) = args.grace else { return Ok(GRACE) };
    // When a lock is lost with its term, the supervisor cuts the grace to `most` as well.
    let Some(term) = guards.first().and_then(LockGuard::term) else { return Ok(grace) };
    let most = margin(term).saturating_sub(reserve(margin(term)));
    if grace <= most || args.on_lost != OnLost::Terminate {
        return Ok(grace);
    }
    let needed = grace.saturating_mul(4) / 3;
    let needed = needed.max(grace.saturating_add(Duration::from_millis(250)));
    Err(Failure::new(
        exit::USAGE,
        format_args!(
            "--grace {:.1}: the command was not started, because another machine could have the lock {:.1} \
             s after this one has lost it; give --grace {:.1} or less, or set margin = {:.1} in the \
             settings of the store (and a time-to-live of twice that, at least)",
            grace.as_secs_f64(),
            margin(term).as_secs_f64(),
            (most.as_secs_f64() * 10.0).floor() / 10.0,
            (needed.as_secs_f64() * 10.0).ceil() / 10.0,
        ),
    ))
}
