//! `navlock daemon`: the broker itself.

use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use navlock::{BrokerReach, Error, Place, Reason, Status, blocking::block_on_timeout};
use navlock_broker::daemon::{self, Options};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit},
};

use super::Context;
use crate::{
    args::{DaemonArgs, DaemonCommand, DaemonRunArgs, StatusArgs},
    descriptors::close_inherited,
    exit::{Failure, UNREACHABLE},
    json::Object,
    reach,
    settings::Settings,
    terminal::write_out,
    text::printable,
    time::{elapsed, millis},
};

/// How long a broker may take to end.
const END: Duration = Duration::from_secs(10);

/// How long it may take to say how it is.
const ANSWER: Duration = Duration::from_secs(5);

pub(super) fn daemon(context: &Context, args: &DaemonArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        DaemonCommand::Run(args) => run(&context.place, args),
        DaemonCommand::Start => start(context),
        DaemonCommand::Stop => stop(context),
        DaemonCommand::Status(args) => status(context, args),
    }
}

fn run(place: &Place, args: &DaemonRunArgs) -> Result<ExitCode, Failure> {
    close_inherited();
    // Away from the terminal and the process group of whoever happened to need us first. It fails
    // if we lead a group already, as when somebody tries us out in a shell; then that is meant.
    let _ = rustix::process::setsid();
    raise_descriptor_limit();
    let failed = |error: String| Failure::new(UNREACHABLE, error);
    let settings = Settings::load(&args.settings).map_err(failed)?;
    let etcd = settings.etcd.as_ref();
    let mut options = Options::default();
    options.idle = Some(args.idle_seconds);
    options.reach = etcd.map(|etcd| {
        let namespace = etcd.namespace.as_deref().unwrap_or("navlock");
        format!("etcd at {}, namespace {namespace}", etcd.endpoints.join(", "))
    });
    let user_agent = |first| match etcd {
        Some(etcd) => reach::connect(etcd),
        None => Ok(daemon::user_agent(first)),
    };
    daemon::run(place, user_agent, &options, detach)
        .map_err(|error| Failure::new(UNREACHABLE, error))?;
    Ok(ExitCode::SUCCESS)
}

/// Has as many descriptors as we may: each client takes one, and the usual 1024 are there for the
/// sake of programs that use `select`.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If not, there are fewer clients.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
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
    let (reach, done) = match context.connect_to_running() {
        Ok(reach) => (reach, "is running already"),
        Err(error) if *error.reason() == Reason::NotRunning => {
            (context.connect()?, "was started; without clients it ends after a while")
        }
        Err(error) => return Err(Error::from(error).into()),
    };
    let socket = context.place.socket().display();
    let process = pid(&context.place)
        .map_or_else(String::new, |pid| format!("process {}, ", pid.as_raw_nonzero()));
    write(&format!("the broker ({process}{socket}) {done}\n"))?;
    drop(reach);
    Ok(ExitCode::SUCCESS)
}

fn stop(context: &Context) -> Result<ExitCode, Failure> {
    let socket = context.place.socket().display();
    let Some(pid) = pid(&context.place) else {
        write(&format!("no broker is running at {socket}\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let number = pid.as_raw_nonzero();
    // Asked before, and the connection closed: who is there when it ends starts another one.
    let known = context.connect_to_running().ok().and_then(|reach| asked(&reach).ok());
    let not_ended = |why: &dyn std::fmt::Display| {
        let message = format_args!("the broker (process {number}, {socket}) does not end: {why}");
        Failure::new(1, message)
    };
    match kill_process(pid, Signal::TERM) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(not_ended(&error)),
    }
    let deadline = Instant::now() + END;
    // The lock that it holds for life; by now another one may hold it.
    while self::pid(&context.place) == Some(pid) {
        if Instant::now() >= deadline {
            return Err(not_ended(&format_args!("kill it with 'kill -KILL {number}'")));
        }
        thread::sleep(Duration::from_millis(5));
    }
    // We were one of them.
    let clients = known.map_or(0, |status| status.clients.saturating_sub(1));
    let rest = match clients {
        0 => String::new(),
        1 => "; its client starts another one and keeps its locks".to_owned(),
        clients => format!("; its {clients} clients start another one and keep their locks"),
    };
    write(&format!("the broker (process {number}, {socket}) has ended{rest}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn status(context: &Context, args: &StatusArgs) -> Result<ExitCode, Failure> {
    let socket = context.place.socket().to_string_lossy();
    let reach = match context.connect_to_running() {
        Ok(reach) => reach,
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
    let known = match asked(&reach) {
        Ok(status) => Some(status),
        // It is there, and of a release that cannot tell more.
        Err(Error::Refused(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let noted = || pid(&context.place).and_then(|pid| pid.as_raw_nonzero().get().try_into().ok());
    let pid: Option<u32> = known.as_ref().map(|status| status.pid).or_else(noted);
    let text = if args.json {
        format!("{}\n", object(&socket, pid, known.as_ref()))
    } else {
        lines(&socket, pid, known.as_ref())
    };
    write(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn object(socket: &str, pid: Option<u32>, known: Option<&Status>) -> Object {
    let mut object = Object::default().boolean("running", true).string("socket", socket);
    if let Some(pid) = pid {
        object = object.number("pid", pid.into());
    }
    if let Some(status) = known {
        object = object
            .string("release", &status.release)
            .number("ageMs", millis(Duration::from_millis(status.age)))
            .number("clients", status.clients)
            .number("orphans", status.orphans)
            .number("held", status.held)
            .number("pending", status.pending);
        if let Some(reach) = &status.reach {
            object = object.string("reach", reach);
        }
    }
    object
}

fn lines(socket: &str, pid: Option<u32>, known: Option<&Status>) -> String {
    let mut rows = vec![("socket", printable(socket))];
    rows.extend(pid.map(|pid| ("process", pid.to_string())));
    match known {
        Some(status) => rows.extend([
            ("release", printable(&status.release)),
            ("reach", printable(status.reach.as_deref().unwrap_or("this machine"))),
            ("age", elapsed(Duration::from_millis(status.age))),
            ("clients", format!("{} (this one among them)", status.clients)),
            ("orphans", format!("{} (commands whose navlock was killed)", status.orphans)),
            ("held", status.held.to_string()),
            ("pending", status.pending.to_string()),
        ]),
        None => rows.push(("release", "another one, which does not tell more".to_owned())),
    }
    let lines: Vec<_> = rows.iter().map(|(what, is)| format!("{what:8} {is}")).collect();
    lines.join("\n") + "\n"
}

/// How the broker says that it is.
pub(super) fn asked(reach: &BrokerReach) -> Result<Status, Error> {
    block_on_timeout(reach.status(), ANSWER).unwrap_or_else(|| {
        let seconds = ANSWER.as_secs();
        Err(Error::Unreachable(format!("the broker does not answer within {seconds} seconds")))
    })
}

/// The broker's process, if there is one: it holds the lock of the file in which it stands.
pub(super) fn pid(place: &Place) -> Option<Pid> {
    let path = lock_file(place);
    let file = File::open(&path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => {
            Pid::from_raw(std::fs::read_to_string(&path).ok()?.trim().parse().ok()?)
        }
        _ => None,
    }
}

/// The file on which the broker at this place has a lock for life.
pub(super) fn lock_file(place: &Place) -> PathBuf {
    if *place == Place::of_user() {
        return place.directory().join("broker.lock");
    }
    let mut path = place.socket().as_os_str().to_owned();
    path.push(".broker.lock");
    path.into()
}

fn write(text: &str) -> Result<(), Failure> {
    write_out(text.as_bytes()).map_err(|error| Failure::of_writing(&error))
}
