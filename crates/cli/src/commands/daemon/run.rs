//! `navlock daemon run`: the broker.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use navlock::Place;
use navlock_broker::{
    LOGS,
    daemon::{self, Options},
};
use navlock_platform::{
    descriptor::{self, Stream},
    inheritance::{self, close_inherited},
    process,
    service_manager::Manager,
    signal::told_to_end,
    user,
};

use crate::{
    args::{self, SettingsArgs, values},
    exit::{Failure, UNREACHABLE},
    faults,
    log::{self, Log},
    reach,
    settings::{self, STARTED_BY, Settings, Store},
};

/// After how many seconds without a client the broker ends, if nobody says otherwise.
const IDLE_SECS: &str = "30";

/// Runs the broker until it has had no client for a while.
///
/// The broker leaves the session of its starter, so that it does not end with the terminal. It stays in the
/// session if it leads a process group, as when a user starts it in a shell. When the broker listens, it
/// writes the line "ready", and then closes its input and its output.
///
/// The broker logs to its error stream. A broker that a client has started closes that stream too, and logs
/// into a file: see 'navlock daemon logs'.
///
/// The broker tells a service manager that it is ready (`sd_notify`). The service manager may pass the socket
/// to it (`LISTEN_FDS`).
#[derive(Debug, Args)]
#[command(after_long_help = args::settings::HELP)]
pub(crate) struct DaemonRunArgs {
    /// End after this many seconds without a client.
    ///
    /// Without this, a user's broker ends after 30 seconds, and the machine's broker never does.
    #[arg(
        long, env = "NAVLOCK_IDLE_SECS", hide_env_values = true,
        value_name = "SECS", value_parser = idle_seconds, allow_negative_numbers = true
    )]
    idle_seconds: Option<Duration>,

    /// With --system: the group whose members may use the broker, by name or number.
    #[arg(long, default_value = "navlock", value_name = "GROUP")]
    group: String,

    #[command(flatten)]
    settings: SettingsArgs,
}

/// An empty variable counts as unset, like any other variable.
pub(in crate::commands) fn idle_seconds(text: &str) -> Result<Duration, String> {
    values::time(if text.is_empty() { IDLE_SECS } else { text })
        .map_err(|wrong| format!("{wrong}, or unset NAVLOCK_IDLE_SECS"))
}

pub(super) fn run(place: &Place, args: &DaemonRunArgs) -> Result<ExitCode, Failure> {
    let passed = close_inherited().map_err(failed)?;
    let starter = std::env::var(STARTED_BY).ok();
    inheritance::leave(starter.is_some());
    // Leaves the terminal and the process group of whoever happened to start the broker. This fails
    // if the broker leads a group already, as when somebody tries it out in a shell. In that case,
    // the broker should stay there.
    process::leave_terminal();
    let settings = Settings::load(&args.settings, place.store()).map_err(failed)?;
    let store = settings.store.as_ref();
    let mut options = Options::default();
    options.idle = args.idle_seconds.or(options.idle);
    if place.is_of_system() {
        if store.is_some() {
            return Err(failed(
                "the machine's broker keeps its locks itself; start it with a --config FILE that names no store, and \
                 without NAVLOCK_ETCD and NAVLOCK_POSTGRES",
            ));
        }
        options.idle = args.idle_seconds;
        options.group = Some(user::group(&args.group).ok_or_else(|| {
            let group = &args.group;
            failed(format_args!("there is no group {group}; make it (groupadd --system {group}), or name another by --group"))
        })?);
    }
    options.delegate = settings.delegate;
    options.state = settings::state_directory();
    let is_on_demand = starter.is_some();
    let log = Log::begin(place, is_on_demand, settings.log.clone());
    faults::write_down(options.state.clone(), place, Arc::clone(&log));
    options.log = Some(Arc::clone(&log) as _);
    options.log_names = settings.log_names;
    options.details.push(("started by".to_owned(), started_by(starter, passed.is_some())));
    options.socket = passed.map(Arc::new);
    options.reach = store.map(Store::reach);
    options.end = Some(Arc::new(told_to_end().map_err(failed)?));
    // No relative path is used from here on, and the file system of the former working folder can
    // be unmounted.
    let _ = std::env::set_current_dir("/");
    let user_agent = |first| match store {
        Some(store) => {
            // An error is ignored, because the process that has started the broker may be gone.
            let _ = writeln!(io::stdout(), "{}{store}", daemon::WAITS_FOR);
            reach::connect(store).map_err(Into::into)
        }
        None => Ok(daemon::user_agent(first)),
    };
    let manager = Manager::of_environment();
    let socket = place.socket().display();
    let ran = daemon::run(place, user_agent, &options, || {
        manager.tell(format_args!("READY=1\nSTATUS=Serves locks at {socket}"));
        detach(is_on_demand);
    });
    manager.tell(format_args!("STOPPING=1"));
    let ended = match ran {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            // A broker that was not started on demand says this on its error stream.
            if is_on_demand {
                tracing::warn!(target: LOGS, "a broker ends: {error}");
            }
            Err(Failure::new(UNREACHABLE, error))
        }
    };
    log.flush(log::FLUSH_TIMEOUT);
    ended
}

/// The failure of a broker that cannot start.
fn failed(error: impl fmt::Display) -> Failure {
    Failure::new(UNREACHABLE, error)
}

/// Who has started the broker, for people.
fn started_by(client: Option<String>, is_passed: bool) -> String {
    let parent = process::parent();
    let name = process::name(parent);
    match (client, is_passed) {
        (Some(client), _) => format!("{client}, a client that found none"),
        (None, true) => format!("process {parent} {}, with its socket", name.trim()),
        (None, false) => format!("process {parent} {}", name.trim()),
    }
}

/// Says that the broker listens, and then closes the streams of those who wait for that. Somebody
/// who runs the broker on purpose goes on reading its log. A client that has started the broker
/// reads only why it could not start, and nothing after that.
fn detach(is_on_demand: bool) {
    // An error is ignored: the process that waited may be gone, but the broker still serves others.
    let _ = writeln!(io::stdout(), "{}", daemon::READY_LINE);
    let all = [Stream::Input, Stream::Output, Stream::Error];
    let _ = descriptor::leave(if is_on_demand { &all } else { &all[..2] });
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal};

    impl Examples for DaemonRunArgs {
        const LINES: &'static [&'static str] = &["daemon run {}"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["--idle-seconds 1.5"], |run| run.idle_seconds == Some(Duration::from_millis(1500))),
            (&["--group locks"], |run| run.group == "locks"),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<DaemonRunArgs>();
    }

    #[test]
    fn a_broker_of_the_command_goes_on_for_as_long_as_one_of_a_program() {
        assert_eq!(idle_seconds(IDLE_SECS).ok(), Options::default().idle);
    }

    #[test]
    fn an_idle_time_that_is_wrong_is_refused_with_the_variable_that_may_be_meant() {
        let named = ["--idle-seconds", "NAVLOCK_IDLE_SECS"];
        for wrong in ["-1", "x"] {
            let line = format!("daemon run --idle-seconds {wrong}");
            check_refusal(&line, ErrorKind::ValueValidation, &named);
        }
        assert_eq!(idle_seconds(""), idle_seconds("30"));
    }
}
