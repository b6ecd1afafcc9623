//! How users are told that arguments are wrong.

use std::process::ExitCode;

use clap::error::ErrorKind;

use super::{is_subcommand, subcommand};
use crate::exit::{Failure, USAGE, answer, say};

/// Shows help, if the user has asked for help or has given no arguments. Otherwise says what is
/// wrong with the arguments.
pub(crate) fn report_refusal(shown: &clap::Error) -> ExitCode {
    if !shown.use_stderr() {
        return answer(shown.render().to_string()).unwrap_or_else(Failure::report);
    }
    if shown.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = shown.print();
    } else {
        let arguments: Vec<_> = std::env::args_os().collect();
        say(one_line(shown, subcommand(&arguments).as_deref()));
    }
    USAGE.into()
}

/// What is wrong, and what would be nearly the same and right. This leaves out the usage, and
/// everything else after an empty line.
fn one_line(error: &clap::Error, subcommand: Option<&str>) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let line = lines.collect::<Vec<_>>().join(" ");
    let what = line.strip_prefix("error: ").unwrap_or(&line);
    let nearly = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    let nearly = nearly.filter(|tip| tip.contains("similar"));
    let nearly = nearly.fold(String::new(), |all, tip| all + "; " + tip);
    let help = match subcommand.filter(|name| is_subcommand(name)) {
        Some(name) if error.kind() != ErrorKind::InvalidSubcommand || name == "daemon" => {
            format!("navlock {name} --help")
        }
        _ => "navlock --help".to_owned(),
    };
    format!("{what}{nearly}; see '{help}'")
}
