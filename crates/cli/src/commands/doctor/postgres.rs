//! The PostgreSQL of brokers: whether it answers, whether it is fit for locks, and how fast it is.

use std::time::Duration;

use navlock::{Error, UnreachableKind};
use navlock_postgres::{Calls, Health};

use super::{Check, check::Level};
use crate::{
    settings::Postgres,
    time::{seconds, taken},
};

const WHAT: &str = "PostgreSQL";
const CALLS: &str = "PostgreSQL calls";

/// For how long a transaction of others may be open.
const LONG: Duration = Duration::from_secs(60);

pub(super) fn checks(postgres: &Postgres) -> Vec<Check> {
    match navlock_postgres::check(&postgres.options) {
        Ok(health) => of_health(postgres, &health),
        Err(error) => {
            let remedy = match &error {
                Error::Unreachable(why) if why.kind() == UnreachableKind::Unauthenticated => {
                    "mend the user in the URL, and the password-file or the certificate in the settings; pg_hba.conf says whom the \
                     server lets in, and whether only encrypted"
                }
                Error::Refused(_) => {
                    "give the URL of a server that it can use, or mend what it says in the settings"
                }
                _ => "start it, or mend the URL or the certificates in the settings",
            };
            let what = format!("{WHAT} {}", postgres.address);
            vec![Check::fail(what, error).remedy(remedy)]
        }
    }
}

fn of_health(postgres: &Postgres, health: &Health) -> Vec<Check> {
    let what = format!("{WHAT} {}", postgres.address);
    let detail = format!("of release {}", health.version);
    let mut checks = vec![if health.is_replica {
        let detail =
            format!("of release {}, a replica, on which nothing can be locked", health.version);
        Check::fail(what, detail).remedy("give the URL of the primary, or promote this one")
    } else {
        Check::ok(what, detail)
    }];
    let schema = postgres.options.schema_name();
    if !health.is_set_up {
        let detail = format!("navlock is not set up in the schema {schema} of this database");
        let remedy = "'navlock postgres init' does it, with this --store or --postgres, as a user who may create a schema";
        checks.push(Check::fail("PostgreSQL schema", detail).remedy(remedy));
    } else if !health.may_use {
        let remedy = format!("let its owner grant that: grant usage on schema {schema} to ROLE");
        let detail = format!("this user may not use the schema {schema}");
        checks.push(Check::fail("PostgreSQL schema", detail).remedy(remedy));
    } else if !health.is_replica {
        checks.extend(calls(health));
    }
    checks.extend([sessions(health.sessions), transactions(health.oldest_transaction)]);
    checks
}

/// Whether locks can be taken, and whether that is fast enough to keep leases.
fn calls(health: &Health) -> Vec<Check> {
    let Calls { round_trip: time, are_notified, .. } = match &health.calls {
        Ok(calls) => *calls,
        Err(error) => return vec![Check::fail(CALLS, error).remedy("mend what it says, and try again; after a crash wait with a running broker, for as long as a lease lasts")],
    };
    let detail = format!(
        "answered after {} (median); others get the locks of a machine that is silent for {}",
        taken(time),
        seconds(health.time_to_live)
    );
    let is_slow = time > health.time_to_live / 10;
    let check = Check::new(if is_slow { Level::Warn } else { Level::Ok }, CALLS, detail);
    let check = if is_slow {
        check.remedy("have the database nearer, or set a longer time-to-live")
    } else {
        check
    };
    let what = "PostgreSQL notifications";
    let notified = if are_notified {
        Check::ok(what, "arrive")
    } else {
        Check::warn(
            what,
            "do not arrive, so brokers ask 5 to 100 times a second while names are in use",
        )
        .remedy("give a listen-url that leads to the server itself, and not to a pooler")
    };
    vec![check, notified]
}

fn sessions((count, most): (u32, u32)) -> Check {
    let detail = format!("{count} of {most}; each broker has three");
    if 5 * count < 4 * most {
        Check::ok("PostgreSQL sessions", detail)
    } else {
        let remedy = "put a pooler before it, or raise max_connections";
        Check::warn("PostgreSQL sessions", detail).remedy(remedy)
    }
}

/// Whether somebody keeps vacuum from removing dead rows.
fn transactions(oldest: Duration) -> Check {
    let what = "PostgreSQL transactions";
    if oldest < LONG {
        return Check::ok(
            what,
            "none of others is open for long in this database, as far as this user may see",
        );
    }
    let detail = format!(
        "one of others has been open for {} in this database, and keeps dead rows from being removed",
        seconds(oldest)
    );
    Check::warn(what, detail)
        .remedy("end it (pg_stat_activity shows it), or give navlock a database of its own")
}
