//! The arguments for a broker's settings, besides its place.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser},
};

/// The help about the file of settings.
pub(crate) const HELP: &str = "\
Clients start brokers without options, so the settings are in files: ~/.config/navlock/config.toml
and /etc/navlock.toml. Both are read, and what the first says goes before what the second says. They
do not depend on who starts the broker. NAVLOCK_ETCD and NAVLOCK_POSTGRES do: they are for
containers and tests.

  socket = \"/run/navlock-users/{uid}/sock\"  # where this user's own broker is
  delegate = true                      # clients can take a name again without asking the broker,
                                       # until somebody else asks for the name; NAVLOCK_DELEGATE=0
                                       # switches this off
  log = \"info\"                         # off, error, warn, info, debug or trace; for a part of the
                                       # broker \"info,navlock::etcd=debug\"; variable NAVLOCK_LOG
  log-names = false                    # true: the log has names of locks at every level, and not
                                       # only at debug and trace; variable NAVLOCK_LOG_NAMES=1

A bucket that no line names lives on this machine, for this user. Others live where their line says.
A pattern has one * at most, and the longest that fits counts:

  [buckets.\"deploy\"]
  system = true                        # on this machine, for several users: see --system
  [buckets.\"fleet-*\"]
  store = \"main\"                       # in this store, for all machines that use it
  [buckets.\"fleet-cache\"]             # on this machine after all

Each store has a broker of its own. It can be started by 'navlock daemon run --store main'.

  [stores.main]
  etcd = [\"10.0.0.1:2379\", \"10.0.0.2:2379\"]  # the endpoints, or URLs: http://, https://
  follow-members = true                # also use members that etcd names, if a member advertises
                                       # one of the endpoints
  namespace = \"navlock\"                # other namespaces do not see these locks
  time-to-live = 10                    # seconds until the locks of a machine that died are free
  margin = 2                           # the last seconds of these, in which holders that have lost
                                       # a lock are ended: 0.5 to half of the time to live; the
                                       # default is a fifth of it, 2 at most
  keep-names = 8                       # a machine that takes a name this often in a row, with
                                       # nobody else there, owns it: the name is then taken and
                                       # handed over on this machine alone, until another
                                       # machine asks for it; 0: never
  user = \"locks\"
  password-file = \"/etc/navlock.secret\"
  certificate-authority = \"ca.pem\"     # in PEM; etcd: for https://, beside those of
                                       # the system; PostgreSQL: in their place
  certificate = \"client.pem\"
  key = \"client-key.pem\"
  server-name = \"etcd.example\"

The files of the password, the certificates and the key are read again when a connection is made or
fails. You can replace them at any time.

An etcd with --auto-tls cannot be used, because navlock does not support keys of its kind (P-521).
Give the etcd a certificate by --cert-file and --key-file.

A store may be on PostgreSQL instead. It has the settings above without follow-members, namespace,
user and server-name, and of its own:

  [stores.db]
  postgres = \"postgres://locks@db.example/navlock\"  # 'navlock postgres init' sets it up
  listen-url = \"postgres://locks@direct.example/navlock\"  # past a pooler, for notifications
  schema = \"navlock\"                   # other schemas do not see these locks

Only the endpoints or the URL are required. NAVLOCK_ETCD and --etcd name the endpoints of an etcd,
NAVLOCK_POSTGRES and --postgres the URL of a PostgreSQL, for all buckets of the user's own broker,
without further settings: those that no line names, and those whose line has no key.

NAVLOCK_SOCKET goes before the setting socket. {uid} stands for the user's number.

/etc/navlock.toml must belong to root. No other user may be able to write it or the user's own file;
a file that --config or NAVLOCK_CONFIG names is not checked for this. Other users must not be able
to read the files of the password and the key. Relative paths start at the folder of the settings
file.";

/// On which store a broker is, if on one.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// The endpoints of an etcd by which machines share the locks of all buckets of the user's own broker.
    ///
    /// Separate endpoints by commas. With --store, they are used in place of the store's own.
    #[arg(long, env = "NAVLOCK_ETCD", hide_env_values = true, value_name = "URL,...")]
    pub(crate) etcd: Option<String>,

    /// The URL of a PostgreSQL, in place of an etcd: `postgres://user@host/database`.
    ///
    /// All users of a machine can see options, so write no password there: the settings can name a file of it.
    #[arg(long, env = "NAVLOCK_POSTGRES", hide_env_values = true, value_name = "URL")]
    pub(crate) postgres: Option<String>,

    /// The settings file, instead of the user's and the machine's.
    #[arg(
        long, env = "NAVLOCK_CONFIG", hide_env_values = true, value_name = "FILE",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) config: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples};

    impl Examples for SettingsArgs {
        const LINES: &'static [&'static str] = &[
            "daemon run {}",
            "doctor {}",
            "evict {} --key k",
            #[cfg(feature = "postgres")]
            "postgres init {}",
            #[cfg(feature = "postgres")]
            "postgres drop {}",
        ];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--etcd a,b"], |settings| settings.etcd.as_deref() == Some("a,b")),
            (&["--postgres u"], |settings| settings.postgres.as_deref() == Some("u")),
            (&["--config f"], |settings| settings.config.as_deref() == Some(Path::new("f"))),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<SettingsArgs>();
    }
}
