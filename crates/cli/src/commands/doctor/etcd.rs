//! The etcd of brokers: whether it answers, is fit for locks, and how fast it is.

use navlock::Error;
use navlock_etcd::{EndpointHealth, Health};

use super::{Check, Level, releases};
use crate::{reach, settings::Etcd, time::taken};

const WRITES: &str = "etcd writes";

pub(super) fn checks(etcd: &Etcd) -> Vec<Check> {
    let health = reach::options(etcd)
        .and_then(|options| navlock_etcd::check(&options).map_err(|error| error.to_string()));
    match health {
        Ok(health) => of_health(etcd, &health),
        Err(wrong) => vec![Check::fail("etcd", wrong)],
    }
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
    if etcd.user.is_some() && !etcd.endpoints.iter().all(|one| one.starts_with("https://")) {
        let detail = "the password is sent as it is to endpoints without https://";
        checks.push(Check::warn("etcd password", detail).remedy("use TLS"));
    }
    if some_answer {
        checks.push(writes(health));
    }
    checks
}

fn endpoint(endpoint: &EndpointHealth, some_answer: bool) -> Check {
    let what = format!("etcd {}", endpoint.endpoint);
    let member = match &endpoint.member {
        Ok(member) => member,
        Err(error) => {
            let remedy = "start it, or mend the endpoint in the settings";
            // Locks can be had while most members are there.
            let level = if some_answer { Level::Warn } else { Level::Fail };
            return Check::new(level, what, error).remedy(remedy);
        }
    };
    if !member.complaints.is_empty() {
        let detail = format!("it complains: {}", member.complaints.join("; "));
        return Check::fail(what, detail).remedy("see 'etcdctl alarm list' and etcd's log");
    }
    releases::check(what, &member.version)
}

/// Whether it can be written to, and in a time that leaves room for leases to be kept.
fn writes(health: &Health) -> Check {
    let time = match &health.round_trip {
        Ok(time) => *time,
        Err(error @ Error::Refused(_)) => return Check::fail(WRITES, error),
        Err(error) => {
            let remedy = "is there a leader ('etcdctl endpoint status')? \
                          may the user read and write what begins with the namespace and a '/'?";
            return Check::fail(WRITES, error).remedy(remedy);
        }
    };
    let detail = format!(
        "answered after {} (median); locks are lost {} s after the last that was",
        taken(time),
        health.time_to_live.as_secs_f64()
    );
    if time > health.time_to_live / 10 {
        let remedy = "have etcd nearer and its disk faster, or set a longer time-to-live";
        Check::warn(WRITES, detail).remedy(remedy)
    } else {
        Check::ok(WRITES, detail)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_round_trip_of_more_than_a_tenth_of_the_time_to_live_is_slow() {
        // There is no other way to come by one than to ask for it.
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
