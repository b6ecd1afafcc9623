//! `navlock daemon status`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use navlock::{Error, Reason, Status};
use navlock_broker::Control;

use super::super::Context;
use crate::{
    exit::{Failure, UNREACHABLE, answer},
    json::{IfKnown, Object},
    text::printable,
    time::{elapsed, millis},
};

/// How many of the last ends of sessions are shown to people.
const ENDS: usize = 4;

/// Shows the state of the broker.
///
/// Exit codes: 0 if the broker runs, 69 if it does not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --json the command writes one object. It has running and socket, and these if the broker runs:
  pid, release, ageMs, clients, orphans, held, pending
  reach     only if locks are seen beyond this machine
  details   an object with words for people, which may change
  log       file, if the broker logs into one, and filter
  lastEnds  the last ends of sessions, each with agoMs, pid if it is known, and why
  numbers   what the broker has counted since it began, by names
  waits     how long requests waited until they were granted: bounds, longer and sumSeconds
Each of bounds has upToSeconds and count, the number of requests that waited for longer than the
bound before it, and no longer than this one. longer is the number of all other requests.
'navlock daemon metrics' prints the same numbers for Prometheus.")]
pub(crate) struct StatusArgs {
    /// Write one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn status(context: &Context, args: &StatusArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    let socket = context.place.socket().to_string_lossy();
    let mut control = match Control::connect(&context.place) {
        Ok(control) => control,
        Err(error) if matches!(error.reason(), Reason::NotRunning | Reason::NoSystemBroker) => {
            answer(if args.json {
                let object = Object::default().boolean("running", false);
                format!("{}\n", object.string("socket", &socket))
            } else {
                match error.reason() {
                    Reason::NoSystemBroker => format!("{}\n", error.reason()),
                    _ => format!(
                        "no broker is running at {socket}; the next client that needs it starts it\n"
                    ),
                }
            })?;
            return Err(Failure::silent(UNREACHABLE));
        }
        Err(error) => return Err(Error::from(error).into()),
    };
    let status = control.status().map_err(Error::from)?;
    answer(if args.json {
        format!("{}\n", object(&socket, &status))
    } else {
        lines(&socket, &status)
    })
}

fn object(socket: &str, status: &Status) -> Object {
    let details = status.details.iter();
    let details = details.fold(Object::default(), |object, (what, is)| object.string(what, is));
    let log = Object::default().if_known(status.log.as_ref(), |it, log| {
        it.if_known(log.file.as_ref(), |it, file| it.string("file", file))
            .string("filter", &log.filter)
    });
    let ends = status.ends.iter().map(|end| {
        Object::default()
            .number("agoMs", millis(end.at.elapsed().unwrap_or_default()))
            .if_known(end.pid, |it, pid| it.number("pid", pid.into()))
            .string("why", &end.why)
    });
    let ends: Vec<_> = ends.collect();
    let numbers = &status.numbers;
    let named =
        numbers.named().fold(Object::default(), |object, (name, it)| object.number(&name, it));
    let bounds = numbers.waits.bounds.iter().map(|(bound, count)| {
        let object =
            Object::default().json("upToSeconds", serde_json::Value::from(bound.as_secs_f64()));
        object.number("count", *count)
    });
    let bounds: Vec<_> = bounds.collect();
    let waits = Object::default()
        .objects("bounds", &bounds)
        .number("longer", numbers.waits.longer)
        .json("sumSeconds", serde_json::Value::from(numbers.waits.sum.as_secs_f64()));
    Object::default()
        .boolean("running", true)
        .string("socket", socket)
        .number("pid", status.pid.into())
        .string("release", &status.release)
        .number("ageMs", millis(Duration::from_millis(status.age)))
        .number("clients", numbers.clients)
        .number("orphans", numbers.orphans)
        .number("held", numbers.held)
        .number("pending", numbers.pending)
        .if_known(status.reach.as_ref(), |it, reach| it.string("reach", reach))
        .object("details", &details)
        .object("log", &log)
        .objects("lastEnds", &ends)
        .object("numbers", &named)
        .object("waits", &waits)
}

fn lines(socket: &str, status: &Status) -> String {
    let numbers = &status.numbers;
    let mut rows = vec![
        ("socket".to_owned(), printable(socket)),
        ("process".to_owned(), status.pid.to_string()),
        ("release".to_owned(), printable(&status.release)),
        ("reach".to_owned(), printable(status.reach.as_deref().unwrap_or("this machine"))),
        ("age".to_owned(), elapsed(Duration::from_millis(status.age))),
        ("clients".to_owned(), numbers.clients.to_string()),
        ("orphans".to_owned(), format!("{} (commands whose navlock was killed)", numbers.orphans)),
        ("held".to_owned(), numbers.held.to_string()),
        ("pending".to_owned(), numbers.pending.to_string()),
    ];
    rows.extend(status.details.iter().map(|(what, is)| (printable(what), printable(is))));
    let asked = format!(
        "{} locks granted, {} requests given up, {} locks lost, {} of them stolen",
        numbers.grants, numbers.aborts, numbers.losses, numbers.thefts
    );
    rows.push(("so far".to_owned(), asked));
    if let Some(log) = &status.log {
        let to = log.file.as_ref().map(|file| printable(file));
        let to = to.unwrap_or_else(|| "the error stream".to_owned());
        let missing = match numbers.log_lines_missing {
            0 => String::new(),
            1 => ", 1 line is missing".to_owned(),
            lines => format!(", {lines} lines are missing"),
        };
        rows.push(("log".to_owned(), format!("{to}, {}{missing}", printable(&log.filter))));
    }
    rows.extend(status.ends.iter().take(ENDS).map(|end| {
        let ago = elapsed(end.at.elapsed().unwrap_or_default());
        let pid = end.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
        ("a session ended".to_owned(), format!("{ago} ago{pid}: {}", printable(&end.why)))
    }));
    let widest = rows.iter().map(|(what, _)| what.chars().count()).max().unwrap_or_default();
    let lines: Vec<_> = rows.iter().map(|(what, is)| format!("{what:widest$} {is}")).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::examples::{Examples, Flag, check_examples};

    impl Examples for StatusArgs {
        const LINES: &'static [&'static str] = &["daemon status {}"];

        const FLAGS: &'static [Flag<Self>] = &[(&["--json"], |status| status.json)];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<StatusArgs>();
    }
}
