//! The etcd of brokers: whether it answers, whether it is fit for locks, and how fast it is.

use navlock::{Error, Mode, UnreachableKind};
use navlock_etcd::{Blocked, EndpointHealth, EtcdOptions, Health, Stray};

use super::{Check, Level, releases};
use crate::{
    settings::Etcd,
    text::plain_name,
    time::{seconds, taken},
};

const WRITES: &str = "etcd writes";
const KEYS: &str = "etcd keys";

/// What to do if etcd is full.
const MAKE_ROOM: &str = "etcd is full: remove what fills it if that is none of navlock's ('etcdctl del --prefix'), \
                         compact ('etcdctl compact REVISION'), defragment each member ('etcdctl defrag'), then \
                         'etcdctl alarm disarm'; docs/etcd.md has it line by line";

/// How many keys are shown one by one.
const MOST_STRAYS: usize = 10;

pub(super) fn checks(etcd: &Etcd) -> Vec<Check> {
    let health = match navlock_etcd::check(&etcd.options) {
        Ok(health) => health,
        Err(wrong) => return vec![Check::fail("etcd", wrong)],
    };
    let mut checks = of_health(etcd, &health);
    if health.round_trip.is_ok() {
        checks.extend(strays(&etcd.options));
    }
    checks
}

fn of_health(etcd: &Etcd, health: &Health) -> Vec<Check> {
    let members = || health.endpoints.iter().filter_map(|one| one.member.as_ref().ok());
    let some_answer = members().next().is_some();
    let mut checks: Vec<_> =
        health.endpoints.iter().map(|one| endpoint(one, some_answer)).collect();
    let mut clusters: Vec<_> = members().map(|member| member.cluster).collect();
    clusters.sort_unstable();
    clusters.dedup();
    if clusters.len() > 1 {
        let detail = "the endpoints are of several clusters, each with locks of its own";
        checks.push(Check::fail("etcd", detail).remedy("give the endpoints of one"));
    }
    if etcd.has_password && !etcd.endpoints.iter().all(|one| one.starts_with("https://")) {
        let detail = "the password is sent as it is to endpoints without https://";
        checks.push(Check::warn("etcd password", detail).remedy("use TLS"));
    }
    match &health.refused {
        Some(error) => checks.push(Check::fail("etcd format", error)),
        None if some_answer => checks.push(writes(health)),
        None => {}
    }
    checks
}

fn endpoint(endpoint: &EndpointHealth, some_answer: bool) -> Check {
    let what = format!("etcd {}", endpoint.endpoint);
    let member = match &endpoint.member {
        Ok(member) => member,
        Err(error) => {
            let remedy = of_user(error)
                .or(endpoint.remedy)
                .unwrap_or("start it, or mend the endpoint in the settings");
            // Locks can be granted as long as most members are there.
            let level = if some_answer { Level::Warn } else { Level::Fail };
            return Check::new(level, what, error).remedy(remedy);
        }
    };
    if !member.complaints.is_empty() {
        let complaints = member.complaints.join("; ");
        let remedy =
            if member.is_full { MAKE_ROOM } else { "see 'etcdctl alarm list' and etcd's log" };
        return Check::fail(what, format!("it complains: {complaints}")).remedy(remedy);
    }
    releases::check(what, &member.version)
}

/// The keys that are no locks, and may keep some locks from being granted.
fn strays(options: &EtcdOptions) -> Vec<Check> {
    match navlock_etcd::strays(options) {
        Ok(strays) if strays.is_empty() => {
            vec![Check::ok(KEYS, "all keys there are navlock's")]
        }
        Ok(strays) => {
            let mut checks: Vec<_> = strays.iter().take(MOST_STRAYS).map(stray).collect();
            if let Some(more @ 1..) = strays.len().checked_sub(MOST_STRAYS) {
                checks.push(Check::warn(KEYS, format!("{more} more are no locks")));
            }
            checks
        }
        Err(why) => vec![Check::fail(KEYS, why)],
    }
}

fn stray(stray: &Stray) -> Check {
    let remedy = match std::str::from_utf8(&stray.key) {
        Ok(key) if !key.contains(|c: char| c == '\'' || c.is_control()) => {
            format!("if nobody needs it: navlock evict --key '{key}'")
        }
        _ => "if nobody needs it, remove it with 'etcdctl del'".to_owned(),
    };
    let Some(Blocked { bucket, name, is_held, mode, .. }) = &stray.blocks else {
        return Check::warn(KEYS, stray).remedy(remedy);
    };
    let name = plain_name(name);
    let what = match (is_held, mode) {
        (true, Mode::Exclusive) => "nobody gets",
        (true, Mode::Shared) => "nobody gets alone",
        (false, _) => "nobody gets at once",
    };
    Check::fail(KEYS, format!("{what} {name} in bucket {bucket}: {stray}")).remedy(remedy)
}

/// Whether the cluster can be written to, and whether it is fast enough to keep leases.
fn writes(health: &Health) -> Check {
    let time = match &health.round_trip {
        Ok(time) => *time,
        Err(error @ Error::Refused(_)) => return Check::fail(WRITES, error),
        Err(error) => return Check::fail(WRITES, error).remedy(remedy(error)),
    };
    let detail = format!(
        "answered after {} (median); locks are lost {} after the last that was",
        taken(time),
        seconds(health.time_to_live)
    );
    if time > health.time_to_live / 10 {
        let remedy = "have etcd nearer and its disk faster, or set a longer time-to-live";
        Check::warn(WRITES, detail).remedy(remedy)
    } else {
        Check::ok(WRITES, detail)
    }
}

/// What to do if the cluster cannot be written to.
fn remedy(error: &Error) -> &'static str {
    match kind(error) {
        UnreachableKind::StorageFull => MAKE_ROOM,
        _ => of_user(error).unwrap_or(
            "is there a leader ('etcdctl endpoint status')? \
             may the user read and write what begins with the namespace and a '/'?",
        ),
    }
}

/// What to do about the user of etcd, if the error concerns the user.
fn of_user(error: &Error) -> Option<&'static str> {
    match kind(error) {
        UnreachableKind::Unauthenticated => Some(
            "give a user whom etcd knows, and that user's password (user and password-file in the settings)",
        ),
        UnreachableKind::PermissionDenied => Some(
            "let the user read and write what begins with the namespace and a '/' \
             ('etcdctl role grant-permission')",
        ),
        _ => None,
    }
}

fn kind(error: &Error) -> UnreachableKind {
    match error {
        Error::Unreachable(why) => why.kind(),
        _ => UnreachableKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use navlock::Unreachable;

    use super::*;

    #[test]
    fn the_remedy_when_nothing_can_be_written_follows_the_kind_of_the_error_and_not_its_words() {
        let words = "etcd refused: mvcc: database space exceeded";
        let of = |kind| remedy(&Unreachable::new(kind, words).into());
        assert_eq!(of(UnreachableKind::StorageFull), MAKE_ROOM);
        assert!(of(UnreachableKind::Unauthenticated).contains("password"));
        assert!(of(UnreachableKind::PermissionDenied).starts_with("let the user read and write"));
        assert!(of(UnreachableKind::Unavailable).starts_with("is there a leader"));
        assert_eq!(remedy(&Error::TimedOut(String::new())), of(UnreachableKind::Other));
    }

    #[test]
    fn a_user_whom_etcd_does_not_know_is_told_of_instead_of_an_endpoint_that_is_wrong() {
        let options = navlock_etcd::EtcdOptions::new(["127.0.0.1:1"]);
        let mut one = navlock_etcd::check(&options).unwrap().endpoints.remove(0);
        let refused = "etcd refused: authentication failed";
        one.member = Err(Unreachable::new(UnreachableKind::Unauthenticated, refused).into());
        let line = endpoint(&one, false).line(false);
        assert!(line.contains("give a user whom etcd knows"), "{line}");
        one.member = Err(Unreachable::new(UnreachableKind::Unavailable, "away").into());
        let line = endpoint(&one, false).line(false);
        assert!(!line.contains("user"), "{line}");
    }

    #[test]
    fn a_round_trip_of_more_than_a_tenth_of_the_time_to_live_is_slow() {
        // There is no other way to get such a value than to check an etcd.
        let options = navlock_etcd::EtcdOptions::new(["127.0.0.1:1"]);
        let mut health = navlock_etcd::check(&options).unwrap();
        assert_eq!(writes(&health).level, Level::Fail);
        health.time_to_live = Duration::from_secs(10);
        for (millis, level) in [(1, Level::Ok), (1000, Level::Ok), (1001, Level::Warn)] {
            health.round_trip = Ok(Duration::from_millis(millis));
            assert_eq!(writes(&health).level, level, "{millis}");
        }
    }
}
