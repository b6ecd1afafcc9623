//! `navlock evict`: removes from a store what keeps a lock from being granted.

use std::{ffi::OsString, process::ExitCode};

use clap::{Args, builder::OsStringValueParser};
use navlock::{ClientId, ResourceName};

#[cfg(feature = "etcd")]
use navlock_etcd::Evict;
#[cfg(all(feature = "postgres", not(feature = "etcd")))]
use navlock_postgres::Evict;

use super::Context;
use crate::{
    args::{SettingsArgs, values},
    exit::{Failure, UNREACHABLE, USAGE},
    settings::{Settings, Store},
};

/// Removes a lock or a request of any client from the etcd or the PostgreSQL that machines share.
///
/// Use it for a key that blocks a name and is neither a lock nor a request. Such a key may not end by
/// itself; 'navlock query' and 'navlock doctor' show it. Use it also for a lock or a request that another
/// machine has left behind, if nobody uses it any more and you do not want to wait until it ends.
///
/// The holder is told that the lock is lost, but may still be at work. To take a lock from its holder for
/// yourself, use 'navlock run --steal'.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The command talks to the store of the settings directly, as a broker does. It needs no broker. It
removes only what it has found when it looked. A key that has changed since then stays.

Exit codes:
  0   the lock, the request or the key was removed
  1   it does not exist, or has just changed
  64  no store is named
  69  the settings or the store cannot be used")]
pub(crate) struct EvictArgs {
    /// The lock's name.
    #[arg(value_parser = values::name(), required_unless_present = "key", requires = "client_id")]
    name: Option<ResourceName>,

    /// The client id of the holder or waiter, as 'navlock query' shows it.
    #[arg(value_name = "CLIENT ID")]
    client_id: Option<ClientId>,

    /// The key to remove, in place of a name and a client id.
    #[arg(
        long, value_name = "KEY", conflicts_with_all = ["name", "client_id"],
        value_parser = OsStringValueParser::new()
    )]
    key: Option<OsString>,

    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn evict(context: &Context, args: &EvictArgs) -> Result<ExitCode, Failure> {
    let settings = Settings::load(&args.settings, context.place.store());
    let settings = settings.map_err(|wrong| Failure::new(UNREACHABLE, wrong))?;
    // The machine's broker has no store.
    let store = settings.store.as_ref().filter(|_| !context.place.is_of_system());
    let Some(store) = store else {
        let why = "locks of one machine end with their processes, and there is nothing to evict; \
                   what machines share can be evicted: name its store (--store, --bucket, --etcd or --postgres)";
        return Err(Failure::new(USAGE, why));
    };
    // This does not go through the broker, because the same keys may be in the broker's way, and because the broker is
    // not needed for it.
    match store {
        #[cfg(feature = "etcd")]
        Store::Etcd(etcd) => {
            evict_by(|what| navlock_etcd::evict(&etcd.options, what), context, args)
        }
        #[cfg(not(feature = "etcd"))]
        Store::Etcd(etcd) => Err(Failure::new(UNREACHABLE, etcd.unusable())),
        #[cfg(feature = "postgres")]
        Store::Postgres(postgres) => {
            evict_by(|what| navlock_postgres::evict(&postgres.options, what), context, args)
        }
        #[cfg(not(feature = "postgres"))]
        Store::Postgres(postgres) => Err(Failure::new(UNREACHABLE, postgres.unusable())),
    }
}

#[cfg(any(feature = "etcd", feature = "postgres"))]
fn evict_by(
    evict: impl FnOnce(&Evict<'_>) -> Result<Vec<Vec<u8>>, navlock::Error>,
    context: &Context,
    args: &EvictArgs,
) -> Result<ExitCode, Failure> {
    use navlock::Error;
    use navlock_platform::file::bytes;

    use crate::{
        exit::{CONFLICT, answer},
        text::printable,
    };

    let what = match (&args.key, &args.name, args.client_id) {
        (Some(key), ..) => Evict::Key(bytes(key)),
        (None, Some(name), Some(client_id)) => {
            Evict::Client { bucket: &context.bucket, name, client_id }
        }
        // The definition of the arguments prevents all other combinations.
        _ => return Err(Failure::new(USAGE, "give a name and a client id, or --key")),
    };
    let removed = evict(&what).map_err(|error| match error {
        Error::Refused(why) => Failure::new(CONFLICT, why),
        error => Failure::new(UNREACHABLE, error),
    })?;
    let line = |key: &Vec<u8>| format!("removed {}\n", printable(&String::from_utf8_lossy(key)));
    let text: String = removed.iter().map(line).collect();
    answer(text)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    impl Examples for EvictArgs {
        const LINES: &'static [&'static str] = &["evict {}"];

        const NO_FLAG: &'static str = "db 45938644-e5b2-42a0-9dd9-729c3b367f81";

        const FLAGS: &'static [Flag<Self>] =
            &[(&["--key k"], |evict| evict.key.as_deref() == Some("k".as_ref()))];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<EvictArgs>();
    }

    #[test]
    fn a_key_or_a_name_with_its_client_is_evicted() {
        let (name, id) = EvictArgs::NO_FLAG.split_once(' ').unwrap();
        let evict: EvictArgs = parsed(&format!("evict {name} {id}"));
        assert_eq!((evict.name.unwrap(), evict.key), (name.try_into().unwrap(), None));
        assert_eq!(evict.client_id, Some(id.parse().unwrap()));
        check_refusal("evict", ErrorKind::MissingRequiredArgument, &["NAME"]);
        check_refusal("evict db", ErrorKind::MissingRequiredArgument, &["CLIENT ID"]);
        check_refusal("evict db x", ErrorKind::ValueValidation, &["CLIENT ID"]);
        let line = format!("evict --key k {name} {id}");
        check_refusal(&line, ErrorKind::ArgumentConflict, &["--key", "NAME"]);
    }
}
