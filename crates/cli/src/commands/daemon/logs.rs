//! `navlock daemon logs` and `log-level`: what brokers have logged, and what they log.

use std::{io, process::ExitCode, time::Duration};

use clap::Args;
use navlock::Error;
use navlock_broker::Control;

use super::super::Context;
use crate::{
    exit::{Failure, USAGE, answer},
    faults,
    log::reader::{Reader, last, shown},
    settings::state_directory,
    terminal::reader_has_gone,
    text::printable,
};

/// Shows the log of brokers that clients have started.
///
/// These brokers log into a file beside the socket. The file grows to half a megabyte, and one older file is
/// kept. A panic inside a broker is logged, and is also recorded in a file that is kept for longer. This
/// command and 'navlock doctor' report that file.
///
/// A broker that is run on purpose logs to its error stream. For a broker of systemd, see journalctl.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The setting log in the settings file chooses what is logged, or the variable NAVLOCK_LOG for brokers
that are started with it: see 'navlock daemon run --help'. Names of locks are logged at the levels
debug and trace only, unless the setting log-names is true. Times are in UTC.")]
pub(crate) struct LogsArgs {
    /// Go on showing new lines until interrupted.
    ///
    /// Lines of brokers that are started later are shown as well.
    #[arg(short, long)]
    follow: bool,

    /// Show only this number of lines, the last ones.
    #[arg(short = 'n', long, value_name = "LINES")]
    lines: Option<usize>,
}

/// Lets the running broker log more or less, until it ends.
///
/// For brokers that are started later, use the setting log: see 'navlock daemon run --help'.
///
/// Exit codes: 0; 64 if this is not a level; 69 if no broker runs.
#[derive(Debug, Args)]
pub(crate) struct LogLevelArgs {
    /// The level: off, error, warn, info, debug or trace.
    ///
    /// A part of the broker can have a level of its own: write TARGET=LEVEL after a comma, as in
    /// `info,navlock::etcd=debug`.
    level: String,
}

/// How often the files are read for new lines.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn logs(context: &Context, args: &LogsArgs) -> Result<ExitCode, Failure> {
    let file = context.place.log();
    let mut reader = Reader::new(&file);
    let failed = |error: io::Error| {
        Failure::new(1, format_args!("cannot read the log at {}: {error}", file.display()))
    };
    let known = reader.lines().map_err(failed)?;
    answer(shown(last(&known, args.lines.unwrap_or(usize::MAX))))?;
    for found in faults::known(state_directory().as_deref(), &context.place) {
        let (told, remedy) = (printable(&found.told()), printable(&found.remedy()));
        context.verbosity.tell(format_args!("{told}; {remedy}"));
    }
    if context.place.is_of_system() {
        context.verbosity.tell(
            "the machine's broker logs to its error stream; what a service of systemd's logs is shown by \
             'journalctl -u navlock'",
        );
    } else if let Some(elsewhere) = logs_elsewhere(context) {
        context.verbosity.tell(elsewhere);
    } else if known.is_empty() && !args.follow {
        let file = file.display();
        context.verbosity.tell(format_args!("nothing has been logged at {file} so far"));
    }
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    while !reader_has_gone(CHECK_INTERVAL) {
        let more = reader.lines().map_err(failed)?;
        if !more.is_empty() {
            answer(shown(&more))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What to say of a broker that runs and does not log into the file.
fn logs_elsewhere(context: &Context) -> Option<&'static str> {
    let status = Control::connect(&context.place).ok()?.status().ok()?;
    status.log?.file.is_none().then_some(
        "the broker that runs logs to its error stream; what a service of systemd's logs is shown by \
         'journalctl --user -u navlock'",
    )
}

pub(super) fn set_level(context: &Context, args: &LogLevelArgs) -> Result<ExitCode, Failure> {
    let mut control = Control::connect(&context.place).map_err(Error::from)?;
    let filter = control.set_log(&args.level).map_err(Error::from)?;
    let filter = filter.map_err(|why| Failure::new(USAGE, printable(&why)))?;
    answer(format!("the broker logs from now on: {}\n", printable(&filter)))
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples, check_refusal, parsed};

    impl Examples for LogsArgs {
        const LINES: &'static [&'static str] = &["daemon logs {}"];

        const FLAGS: &'static [Flag<Self>] = &[
            (&["-f", "--follow"], |logs| logs.follow),
            (&["-n 5", "--lines 5"], |logs| logs.lines == Some(5)),
        ];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<LogsArgs>();
    }

    #[test]
    fn a_number_of_lines_is_not_negative() {
        check_refusal("daemon logs --lines=-1", ErrorKind::ValueValidation, &["--lines"]);
    }

    #[test]
    fn a_level_is_given() {
        let level: LogLevelArgs = parsed("daemon log-level info,navlock::etcd=debug");
        assert_eq!(level.level, "info,navlock::etcd=debug");
        check_refusal("daemon log-level", ErrorKind::MissingRequiredArgument, &["LEVEL"]);
    }
}
