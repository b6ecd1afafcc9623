//! `navlock daemon`: the broker itself.

use std::{
    fs::File,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use navlock::{Error, Place, Reason, Status};
use navlock_broker::{
    Control, Stopped,
    daemon::{self, Options},
};

use super::Context;
use crate::{
    args::{DaemonArgs, DaemonCommand, DaemonRunArgs, StatusArgs},
    descriptors::close_inherited,
    exit::{Failure, UNREACHABLE},
    faults,
    json::Object,
    reach,
    settings::{self, Settings},
    surroundings::{self, STARTED_BY},
    terminal::write_out,
    text::printable,
    time::{elapsed, millis},
};

pub(super) fn daemon(context: &Context, args: &DaemonArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        DaemonCommand::Run(args) => run(&context.place, args),
        DaemonCommand::Start => start(context),
        DaemonCommand::Stop => stop(context),
        DaemonCommand::Status(args) => status(context, args),
    }
}

fn run(place: &Place, args: &DaemonRunArgs) -> Result<ExitCode, Failure> {
    let failed = |error: String| Failure::new(UNREACHABLE, error);
    let passed = close_inherited().map_err(failed)?;
    let starter = std::env::var(STARTED_BY).ok();
    surroundings::leave(starter.is_some());
    // Away from the terminal and the process group of whoever happened to need us first. It fails
    // if we lead a group already, as when somebody tries us out in a shell; then that is meant.
    let _ = rustix::process::setsid();
    let settings = Settings::load(&args.settings).map_err(failed)?;
    let etcd = settings.etcd.as_ref();
    let mut options = Options::default();
    options.idle = Some(args.idle_seconds);
    options.delegate = settings.delegate;
    options.state = settings::state_directory();
    if let Some(state) = options.state.clone() {
        faults::write_down(state, place);
    }
    options.details.push(("started by".to_owned(), started_by(starter, passed.is_some())));
    options.socket = passed.map(Arc::new);
    options.reach = etcd.map(|etcd| {
        let namespace = etcd.namespace.as_deref().unwrap_or("navlock");
        format!("etcd at {}, namespace {namespace}", etcd.endpoints.join(", "))
    });
    // No path is meant from here any more, and no file system is held for us.
    let _ = std::env::set_current_dir("/");
    let user_agent = |first| match etcd {
        Some(etcd) => reach::connect(etcd),
        None => Ok(daemon::user_agent(first)),
    };
    daemon::run(place, user_agent, &options, detach)
        .map_err(|error| Failure::new(UNREACHABLE, error))?;
    Ok(ExitCode::SUCCESS)
}

/// Who has started us, for people.
fn started_by(client: Option<String>, is_passed: bool) -> String {
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    match (client, is_passed) {
        (Some(client), _) => format!("{client}, a client that found none"),
        (None, true) => format!("process {parent} {}, with its socket", name.trim()),
        (None, false) => format!("process {parent} {}", name.trim()),
    }
}

/// Says that we listen, then lets go of those who wait for that.
fn detach() {
    // Who waited for it may be gone, which is no reason not to serve the others.
    let _ = writeln!(io::stdout(), "{}", daemon::READY_LINE);
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn start(context: &Context) -> Result<ExitCode, Failure> {
    let done = match Control::connect(&context.place) {
        Ok(_) => "is running already",
        // Or it has just ended, or was killed.
        Err(error) if matches!(error.reason(), Reason::NotRunning | Reason::Vanished) => {
            drop(context.connect(None)?);
            "was started; without clients it ends after a while"
        }
        Err(error) => return Err(Error::from(error).into()),
    };
    let status = asked(&mut Control::connect(&context.place).map_err(Error::from)?);
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

/// The broker, for people.
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
    let status = asked(&mut control)?;
    let text =
        if args.json { format!("{}\n", object(&socket, &status)) } else { lines(&socket, &status) };
    write(&text)?;
    Ok(ExitCode::SUCCESS)
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

fn lines(socket: &str, status: &Status) -> String {
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
    let widest = rows.iter().map(|(what, _)| what.chars().count()).max().unwrap_or_default();
    let lines: Vec<_> = rows.iter().map(|(what, is)| format!("{what:widest$} {is}")).collect();
    lines.join("\n") + "\n"
}

/// How the broker says that it is.
pub(super) fn asked(control: &mut Control) -> Result<Status, Error> {
    control.status().map_err(Error::from)
}

fn write(text: &str) -> Result<(), Failure> {
    write_out(text.as_bytes()).map_err(|error| Failure::of_writing(&error))
}
