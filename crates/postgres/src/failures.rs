//! What has to be done about an error of PostgreSQL, or of the connection to it.

use std::{error::Error as _, io};

use navlock_core::{Refusal, Unreachable, UnreachableKind};
use navlock_machines::call_failure::Failure;
use tokio_postgres::{Error, error::SqlState};

/// The oldest release that navlock is tested with.
const OLDEST: u32 = 15;

/// What a function answers while the machines put back their keys.
pub(crate) const RECOVERS: &str = r#"{"refused": "recovering"}"#;

/// What it answers if there is no such lease.
pub(crate) const NO_LEASE: &str = r#"{"refused": "no lease"}"#;

/// What is said while that is so.
pub(crate) const RECOVERING: &str = "the locks are being put back after a crash of PostgreSQL";

/// What has to be done about this error.
pub(crate) fn of(error: Error) -> Failure {
    let Some(told) = error.as_db_error() else {
        let mut why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let mut kind = UnreachableKind::Unavailable;
        if is_of_handshake(&error) {
            kind = UnreachableKind::Protocol;
            why.push_str(
                "; mend the certificate-authority, or the server's certificate, which has to be for the name in the URL \
                 unless that says sslmode=verify-ca",
            );
        }
        return Failure::Unknown(Unreachable::new(kind, why).caused_by(error));
    };
    let (code, message) = (told.code().code().to_owned(), told.message().to_owned());
    let unknown = |kind, why: String| Failure::Unknown(Unreachable::new(kind, why));
    let refused = |kind, why: String| Failure::Refused(Unreachable::new(kind, why).into());
    match &*code {
        "NL004" => Failure::NoRevision,
        // The server has waited for as long as it was told to, and has done nothing.
        "55P03" | "57014" => {
            unknown(UnreachableKind::TimedOut, format!("PostgreSQL was too slow: {message}"))
        }
        "25006" | "0A000" => unknown(
            UnreachableKind::Unavailable,
            format!(
                "{message}: this is a replica; give the URL of the primary, or wait until it is promoted"
            ),
        ),
        "3F000" | "42883" | "42P01" => refused(
            UnreachableKind::Protocol,
            format!("{message}: navlock is not set up in this database"),
        ),
        "42501" => {
            refused(UnreachableKind::PermissionDenied, format!("PostgreSQL refused: {message}"))
        }
        "53100" => refused(UnreachableKind::StorageFull, format!("PostgreSQL refused: {message}")),
        // Too many connections, out of memory; being shut down or started; not to be serialised.
        code if ["53", "57", "08", "25", "40", "58"].contains(&&code[..2]) => {
            unknown(UnreachableKind::Unavailable, message)
        }
        code if code.starts_with("28") => {
            refused(UnreachableKind::Unauthenticated, format!("PostgreSQL refused: {message}"))
        }
        _ => Failure::Refused(
            Refusal::new(format!("PostgreSQL refused: {message} ({code})")).caused_by(error).into(),
        ),
    }
}

/// What has to be done about this error of connecting to these servers.
pub(crate) fn of_connecting(error: Error, address: &str) -> Failure {
    match of(error) {
        Failure::Unknown(why) => {
            let message = format!("{address}: {}", why.message());
            Failure::Unknown(why.with_message(message))
        }
        failure => failure,
    }
}

/// Refuses servers of another make, which speak as PostgreSQL does and have other locks, and of old releases.
pub(crate) fn of_make(release: Option<&str>, cockroach: Option<&str>) -> Result<(), Failure> {
    let release = release.unwrap_or("unknown");
    let make = match cockroach {
        Some(cockroach) => cockroach.to_owned(),
        // As YugabyteDB has it: 11.2-YB-2.1.
        None if release.contains("-YB-") => format!("YugabyteDB, release {release}"),
        None => {
            let major = release.split(|c: char| !c.is_ascii_digit()).next();
            if major.and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= OLDEST)
            {
                return Ok(());
            }
            format!("PostgreSQL of release {release}")
        }
    };
    let why = format!("navlock needs PostgreSQL {OLDEST} or newer, and this server is {make}");
    Err(Failure::Refused(Refusal::new(why).into()))
}

/// Whether encryption was not possible, or not wanted: the handshake has failed, or nobody is let in by it.
pub(crate) fn is_of_tls(error: &Error) -> bool {
    is_of_handshake(error) || error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Whether the handshake of TLS has failed.
fn is_of_handshake(error: &Error) -> bool {
    let why = error.source().and_then(|why| why.downcast_ref::<io::Error>());
    why.is_some_and(|why| why.kind() == io::ErrorKind::InvalidData)
}
