//! What all subcommands take.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap::{
    Args, ColorChoice,
    builder::{OsStringValueParser, TypedValueParser},
};

use navlock::Project;
use navlock_broker::buckets::is_store;

use crate::exit::{Failure, USAGE};

/// The heading under which help shows what all subcommands take.
const COMMON: &str = "Common options";

/// What all subcommands take.
#[derive(Debug, Args)]
#[command(next_help_heading = COMMON)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub(crate) struct Common {
    /// The bucket in which names are looked up.
    ///
    /// The same name in two buckets is two locks. Without this, it is the bucket "default".
    #[arg(long, global = true, env = BUCKET, hide_env_values = true, value_name = "NAME")]
    pub(crate) bucket: Option<String>,

    /// Use the bucket of this folder's project.
    ///
    /// It is the bucket that programs with the npm package have here: the path of the nearest workspace or package
    /// above this folder, or else of this folder. If `NAVLOCK_BUCKET` is set, it is that one.
    #[arg(long, global = true)]
    pub(crate) project: bool,

    /// Use the locks that several users of this machine share.
    ///
    /// The machine's broker keeps them. An administrator starts it (systemctl enable --now navlock.socket), and you
    /// have to be in its group. The variable `NAVLOCK_SYSTEM=1` does the same.
    #[arg(long, global = true)]
    pub(crate) system: bool,

    /// Use the locks of this store of the settings, whatever the bucket is.
    ///
    /// Without this, the settings say by [buckets] where the locks of a bucket are.
    #[arg(long, global = true, env = STORE, hide_env_values = true, value_name = "NAME")]
    pub(crate) store: Option<String>,

    /// The broker's socket, instead of the ones that all processes of this user share.
    #[arg(
        long, global = true, env = SOCKET, hide_env_values = true, value_name = "PATH",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) socket: Option<PathBuf>,

    /// Print errors only.
    ///
    /// Nothing is printed while navlock waits for a lock, or when it does not get the lock in time.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say what is being done.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    /// When to use colours.
    ///
    /// "auto" uses colours on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

/// The variable that names the bucket.
pub(crate) const BUCKET: &str = "NAVLOCK_BUCKET";

/// The variable that names the store.
pub(crate) const STORE: &str = "NAVLOCK_STORE";

/// The variable that names the socket.
pub(crate) const SOCKET: &str = "NAVLOCK_SOCKET";

impl Common {
    /// Makes the project's bucket the one that was asked for, if it was.
    ///
    /// # Errors
    ///
    /// If two buckets or two brokers were named, or the working folder cannot be used.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        // The option goes before the variable.
        let socket = self.socket.as_deref().map(Path::as_os_str);
        let store = self.store.as_deref().map(OsStr::new);
        for (option, variable, named) in [("--socket", SOCKET, socket), ("--store", STORE, store)] {
            if self.system && named.is_some_and(|it| env::var_os(variable).as_deref() != Some(it)) {
                let message = "name two brokers; leave one of them out";
                return Err(Failure::new(USAGE, format_args!("--system and {option} {message}")));
            }
        }
        self.store = self.store.take().filter(|store| !store.is_empty());
        if let Some(store) = self.store.as_ref().filter(|store| !is_store(store)) {
            let message = format_args!("{store:?} is no name of a store; give one of the settings");
            return Err(Failure::new(USAGE, message));
        }
        if !self.project {
            return Ok(());
        }
        let variable = env::var(BUCKET).ok();
        if self.bucket.is_some() && self.bucket != variable {
            let message = "--bucket and --project name two buckets; leave one of them out";
            return Err(Failure::new(USAGE, message));
        }
        if variable.is_none_or(|bucket| bucket.is_empty()) {
            let project = Project::here().map_err(|error| {
                let what = "--project: the working folder cannot be used";
                let remedy = "change to another one, or name the bucket by --bucket";
                Failure::new(USAGE, format_args!("{what}: {error}; {remedy}"))
            });
            self.bucket = Some(project?.bucket().to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    impl Examples for Common {
        const LINES: &'static [&'static str] = &["{} query db", "query {} db", "daemon status {}"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--bucket b", "--bucket=b"], |common| common.bucket.as_deref() == Some("b")),
            (&["--project"], |common| common.project),
            (&["--system"], |common| common.system),
            (&["--store s"], |common| common.store.as_deref() == Some("s")),
            (&["--socket s"], |common| common.socket.as_deref() == Some(Path::new("s"))),
            (&["-q", "--quiet"], |common| common.quiet),
            (&["-v", "--verbose"], |common| common.verbose),
            (&["--color never"], |common| common.color == ColorChoice::Never),
            (&["--color always"], |common| common.color == ColorChoice::Always),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<Common>();
    }

    #[test]
    fn colours_depend_on_the_terminal_if_nobody_says_otherwise() {
        assert_eq!(parsed::<Common>("query").color, ColorChoice::Auto);
        check_refusal("query --color red", ErrorKind::InvalidValue, &["red", "--color"]);
    }

    #[test]
    fn one_broker_is_named() {
        for both in ["--system --socket s", "--system --store s", "--store A/b"] {
            let mut both: Common = parsed(&format!("query {both}"));
            assert_eq!(both.settle().unwrap_err().code(), USAGE);
        }
        let mut one: Common = parsed("query --system");
        assert!(one.settle().is_ok());
    }

    #[test]
    fn nobody_is_both_quiet_and_verbose() {
        check_refusal("query -q -v", ErrorKind::ArgumentConflict, &["--quiet", "--verbose"]);
    }
}
