//! `navlock daemon`: the broker itself.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use navlock::{Error, Place, Reason, ResourceName, Status};
use navlock_broker::{
    Control, LOGS, Report, Stopped,
    daemon::{self, Options},
};
use navlock_platform::{
    descriptor::{self, Stream},
    inheritance::{self, close_inherited},
    process,
    service_manager::Manager,
    signal::told_to_end,
};

use super::{Context, logs};
use crate::{
    args::{DaemonArgs, DaemonCommand, DaemonRunArgs, StatusArgs},
    counts::prometheus,
    exit::{Failure, UNREACHABLE},
    faults,
    json::Object,
    log::{self, Log},
    reach,
    settings::{self, STARTED_BY, Settings},
    terminal::write_out,
    text::{plain_name, printable},
    time::{elapsed, millis},
};

/// How many of the last ends of sessions are shown to people.
const ENDS: usize = 4;

pub(super) fn daemon(context: &Context, args: &DaemonArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        DaemonCommand::Run(args) => run(&context.place, args),
        DaemonCommand::Start => start(context),
        DaemonCommand::Stop => stop(context),
        DaemonCommand::Status(args) => status(context, args),
        DaemonCommand::Logs(args) => logs::logs(context, args),
        DaemonCommand::LogLevel(args) => logs::set_level(context, args),
        DaemonCommand::Metrics => metrics(context),
    }
}

fn run(place: &Place, args: &DaemonRunArgs) -> Result<ExitCode, Failure> {
    let passed = close_inherited().map_err(failed)?;
    let starter = std::env::var(STARTED_BY).ok();
    inheritance::leave(starter.is_some());
    // Leaves the terminal and the process group of whoever happened to start the broker. This fails
    // if the broker leads a group already, as when somebody tries it out in a shell. In that case,
    // the broker should stay there.
    process::leave_terminal();
    let settings = Settings::load(&args.settings).map_err(failed)?;
    let etcd = settings.etcd.as_ref();
    let mut options = Options::default();
    options.idle = Some(args.idle_seconds);
    options.delegate = settings.delegate;
    options.state = settings::state_directory();
    let is_on_demand = starter.is_some();
    let log = Log::begin(place, is_on_demand, settings.log.clone());
    faults::write_down(options.state.clone(), place, Arc::clone(&log));
    options.log = Some(Arc::clone(&log) as _);
    options.log_names = settings.log_names;
    options.details.push(("started by".to_owned(), started_by(starter, passed.is_some())));
    options.socket = passed.map(Arc::new);
    options.reach = etcd.map(|etcd| {
        let namespace = etcd.namespace.as_deref().unwrap_or("navlock");
        format!("{}, namespace {namespace}", etcd.whole())
    });
    options.end = Some(Arc::new(told_to_end().map_err(failed)?));
    // No relative path is used from here on, and the file system of the former working folder can
    // be unmounted.
    let _ = std::env::set_current_dir("/");
    let user_agent = |first| match etcd {
        Some(etcd) => {
            // An error is ignored, because the process that has started the broker may be gone.
            let _ = writeln!(io::stdout(), "{}{}", daemon::WAITS_FOR, etcd.whole());
            reach::connect(etcd)
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
    log.flush(log::PATIENCE);
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

fn start(context: &Context) -> Result<ExitCode, Failure> {
    let done = match Control::connect(&context.place) {
        Ok(_) => "is running already",
        // It is also possible that the broker has just ended, or was killed.
        Err(error) if matches!(error.reason(), Reason::NotRunning | Reason::Vanished) => {
            drop(context.connect(None)?);
            "was started; without clients it ends after a while"
        }
        Err(error) => return Err(Error::from(error).into()),
    };
    let status = Control::connect(&context.place).map_err(Error::from)?.status();
    let broker = named(&context.place, status.ok().as_ref());
    write(&format!("{broker} {done}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn stop(context: &Context) -> Result<ExitCode, Failure> {
    let stopped = navlock_broker::stop(&context.place);
    let Some(Stopped { status, signalled, .. }) =
        stopped.map_err(|error| match error.reason() {
            Reason::Hangs(_) => Failure::new(1, &error),
            _ => Error::from(error).into(),
        })?
    else {
        let socket = context.place.socket().display();
        write(&format!("no broker is running at {socket}\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let rest = match status.as_ref().map_or(0, |status| status.clients) {
        0 => String::new(),
        1 => "; its client starts another one and keeps its locks".to_owned(),
        clients => format!("; its {clients} clients start another one and keep their locks"),
    };
    let how = if signalled { ", by a signal: it did not answer the question to end" } else { "" };
    write(&format!("{} has ended{how}{rest}\n", named(&context.place, status.as_ref())))?;
    Ok(ExitCode::SUCCESS)
}

/// The name of the broker for people.
fn named(place: &Place, status: Option<&Status>) -> String {
    let process = status.map_or_else(String::new, |status| format!("process {}, ", status.pid));
    format!("the broker ({process}{})", place.socket().display())
}

fn status(context: &Context, args: &StatusArgs) -> Result<ExitCode, Failure> {
    context.tell_if_secluded();
    let socket = context.place.socket().to_string_lossy();
    let mut control = match Control::connect(&context.place) {
        Ok(control) => control,
        Err(error) if *error.reason() == Reason::NotRunning => {
            if args.json {
                let object = Object::default().boolean("running", false);
                write(&format!("{}\n", object.string("socket", &socket)))?;
            } else {
                write(&format!("no broker is running at {socket}; whoever needs it starts it\n"))?;
            }
            return Err(Failure::silent(UNREACHABLE));
        }
        Err(error) => return Err(Error::from(error).into()),
    };
    let mut status = control.status().map_err(Error::from)?;
    if let Some(name) = &args.name {
        let on = place(&status.details, &context.bucket, name);
        let where_it_is = format!("{} in bucket {} is on {on}", plain_name(name), context.bucket);
        status.details.push(("name".to_owned(), where_it_is));
    }
    let report = control.report().map_err(Error::from)?;
    let text = if args.json {
        let object = object(&socket, &status);
        let object = report.iter().fold(object, reported);
        format!("{object}\n")
    } else {
        lines(&socket, &status, report.as_ref())
    };
    write(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The cluster that a name is on, according to what the broker says of its clusters.
fn place(details: &[(String, String)], bucket: &str, name: &ResourceName) -> String {
    let clusters = details.iter().filter_map(|(what, _)| what.strip_prefix("cluster "));
    let on = cluster_among(clusters, bucket, name);
    on.map_or_else(|| "what the broker reaches".to_owned(), |on| format!("cluster {on}"))
}

#[cfg(feature = "etcd")]
fn cluster_among<'a>(
    clusters: impl Iterator<Item = &'a str>,
    bucket: &str,
    name: &ResourceName,
) -> Option<String> {
    let nowhere = || navlock_etcd::EtcdOptions::new([""; 0]);
    let all = clusters
        .fold(navlock_etcd::EtcdClusters::new(), |all, cluster| all.cluster(cluster, nowhere()));
    all.cluster_of(bucket, name).map(str::to_owned)
}

#[cfg(not(feature = "etcd"))]
fn cluster_among<'a>(
    _: impl Iterator<Item = &'a str>,
    _: &str,
    _: &ResourceName,
) -> Option<String> {
    None
}

fn metrics(context: &Context) -> Result<ExitCode, Failure> {
    write(&prometheus(&context.place)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The object with what a broker reports.
fn reported(object: Object, report: &Report) -> Object {
    let log = report.log.iter().fold(Object::default(), |object, log| {
        let file = log.file.iter();
        let object =
            file.fold(object, |object, file| object.string("file", &file.to_string_lossy()));
        object.string("filter", &log.filter)
    });
    let ends = report.ends.iter().map(|end| {
        let object =
            Object::default().number("agoMs", millis(end.at.elapsed().unwrap_or_default()));
        let object = end.pid.iter().fold(object, |object, pid| object.number("pid", (*pid).into()));
        object.string("why", &end.why)
    });
    let ends: Vec<_> = ends.collect();
    let numbers = report.numbers.named();
    let numbers = numbers.fold(Object::default(), |object, (name, it)| object.number(&name, it));
    let waits = &report.numbers.waits;
    let bounds = waits.bounds.iter().map(|(bound, count)| {
        let object =
            Object::default().json("upToSeconds", serde_json::Value::from(bound.as_secs_f64()));
        object.number("count", *count)
    });
    let bounds: Vec<_> = bounds.collect();
    let waits = Object::default()
        .objects("bounds", &bounds)
        .number("longer", waits.longer)
        .json("sumSeconds", serde_json::Value::from(waits.sum.as_secs_f64()));
    object
        .object("log", &log)
        .objects("lastEnds", &ends)
        .object("numbers", &numbers)
        .object("waits", &waits)
}

fn object(socket: &str, status: &Status) -> Object {
    let object = Object::default()
        .boolean("running", true)
        .string("socket", socket)
        .number("pid", status.pid.into())
        .string("release", &status.release)
        .number("ageMs", millis(Duration::from_millis(status.age)))
        .number("clients", status.clients)
        .number("orphans", status.orphans)
        .number("held", status.held)
        .number("pending", status.pending);
    let object = match &status.reach {
        Some(reach) => object.string("reach", reach),
        None => object,
    };
    let details = status.details.iter();
    let details = details.fold(Object::default(), |object, (what, is)| object.string(what, is));
    object.object("details", &details)
}

fn lines(socket: &str, status: &Status, report: Option<&Report>) -> String {
    let mut rows = vec![
        ("socket".to_owned(), printable(socket)),
        ("process".to_owned(), status.pid.to_string()),
        ("release".to_owned(), printable(&status.release)),
        ("reach".to_owned(), printable(status.reach.as_deref().unwrap_or("this machine"))),
        ("age".to_owned(), elapsed(Duration::from_millis(status.age))),
        ("clients".to_owned(), status.clients.to_string()),
        ("orphans".to_owned(), format!("{} (commands whose navlock was killed)", status.orphans)),
        ("held".to_owned(), status.held.to_string()),
        ("pending".to_owned(), status.pending.to_string()),
    ];
    rows.extend(status.details.iter().map(|(what, is)| (printable(what), printable(is))));
    if let Some(report) = report {
        rows.extend(report_rows(report));
    }
    let widest = rows.iter().map(|(what, _)| what.chars().count()).max().unwrap_or_default();
    let lines: Vec<_> = rows.iter().map(|(what, is)| format!("{what:widest$} {is}")).collect();
    lines.join("\n") + "\n"
}

/// What a broker reports, for people.
fn report_rows(report: &Report) -> Vec<(String, String)> {
    let numbers = &report.numbers;
    let asked = format!(
        "{} locks granted, {} requests given up, {} locks lost, {} of them stolen",
        numbers.grants, numbers.aborts, numbers.losses, numbers.thefts
    );
    let mut rows = vec![("so far".to_owned(), asked)];
    if let Some(log) = &report.log {
        let to = log.file.as_ref().map(|file| printable(&file.to_string_lossy()));
        let to = to.unwrap_or_else(|| "the error stream".to_owned());
        let missing = match numbers.log_lines_missing {
            0 => String::new(),
            1 => ", 1 line is missing".to_owned(),
            lines => format!(", {lines} lines are missing"),
        };
        rows.push(("log".to_owned(), format!("{to}, {}{missing}", printable(&log.filter))));
    }
    rows.extend(report.ends.iter().take(ENDS).map(|end| {
        let ago = elapsed(end.at.elapsed().unwrap_or_default());
        let pid = end.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
        ("a session ended".to_owned(), format!("{ago} ago{pid}: {}", printable(&end.why)))
    }));
    rows
}

fn write(text: &str) -> Result<(), Failure> {
    write_out(text.as_bytes()).map_err(|error| Failure::of_writing(&error))
}
