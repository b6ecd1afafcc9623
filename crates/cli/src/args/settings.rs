//! What a broker is told beside its place.

use std::path::PathBuf;

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser},
};

/// What help says of the file.
pub(super) const HELP: &str = "\
Clients start brokers without options, so what is to hold for all stands in a file: the first of
~/.config/navlock/config.toml and /etc/navlock.toml that is there. It does not depend on who starts
the broker, as NAVLOCK_ETCD does, which is for containers and tests.

  socket = \"/run/navlock-users/{uid}/sock\"  # where the broker is; clients read this too
  delegate = true                      # clients can take a name again without asking the broker,
                                       # until somebody else asks for it; NAVLOCK_DELEGATE=0: no
  log = \"info\"                         # what the broker logs, NAVLOCK_LOG: off, error, warn, info,
                                       # debug, trace; for a part \"info,navlock::etcd=debug\"
  log-names = false                    # names of locks in it at every level (NAVLOCK_LOG_NAMES=1),
                                       # and not only from debug on

  [etcd]
  endpoints = [\"10.0.0.1:2379\", \"10.0.0.2:2379\"]  # or URLs: http://, https://
  follow-members = true                # members that etcd names are used as well, where one of the
                                       # endpoints is what a member advertises
  namespace = \"navlock\"                # others do not see these locks
  time-to-live = 10                    # seconds until a machine that died has lost its locks
  margin = 2                           # seconds of these in which to end who has lost a lock: 0.5
                                       # to half of them; else a fifth, and 2 at most
  wait-through-outages = true          # who waits goes on when etcd is back after longer than that
  keep-names = 8                       # a name that was taken so often in a row, with nobody else
                                       # there, is kept: taken and handed over here without etcd,
                                       # until another machine asks for it; 0: never
  user = \"locks\"
  password-file = \"/etc/navlock.secret\"
  certificate-authority = \"ca.pem\"     # for https://, in PEM, beside those of the system
  certificate = \"client.pem\"
  key = \"client-key.pem\"
  server-name = \"etcd.example\"

The files of the password, the certificates and the key are read again when a connection is made or
fails, so that they can be replaced at any time. An etcd with --auto-tls cannot be used: its key is
of a kind (P-521) that is not known here. Give it a certificate, by --cert-file and --key-file.

Several etcd clusters share the names of locks, each of which is on one of them. They stand in
place of the endpoints, and all else below [etcd] holds for all of them:

  [[etcd.clusters]]
  name = \"east\"                        # its own for good: which names are on it follows from that
  endpoints = [\"10.0.0.1:2379\"]

  [[etcd.clusters]]
  name = \"west\"
  endpoints = [\"10.1.0.1:2379\"]
  retired = false                      # true: no name is on it any more, and it is about to go

All machines need the same list. Who has another one is refused while any of them is used.

For etcd nothing has to be there but the endpoints. For the socket each file is looked at, whichever
has the rest: --socket and NAVLOCK_SOCKET go before the user's file, and that before the machine's;
{uid} is the user's number. /etc/navlock.toml must belong to root, and nobody else may be able to
write a file. Paths are meant from the folder of the file; others must not be able to read the
password and the key.";

/// On which etcd a broker is, if on one.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// The endpoints of the etcd by which machines share their locks.
    ///
    /// Commas stand between the endpoints. Several clusters are written as `name=URL,...;name=URL,...`.
    #[arg(long, env = "NAVLOCK_ETCD", hide_env_values = true, value_name = "URL,...")]
    pub(crate) etcd: Option<String>,

    /// The file of settings, instead of the user's or the machine's.
    #[arg(
        long, env = "NAVLOCK_CONFIG", hide_env_values = true, value_name = "FILE",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) config: Option<PathBuf>,
}
