//! The process that has the locks, until what ends the hold.

use std::{
    io::{self, Read, Write},
    mem,
    process::{self, ExitCode},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    task::{self, Waker},
    thread,
    time::Duration,
};

use navlock::{AgentInfo, BrokerReach, LockGuard, LockManager, ResourceName, this_process};
use navlock_platform::{
    descriptor,
    inheritance::{self, close_inherited, keep_files_private},
    process::{Signal, leave_terminal},
    socket::{Stream, of_output},
    wait::{Interest, Source, wait_many},
};

use super::{
    outcome::Outcome,
    process::Process,
    question::{Answer, Question},
    socket::Socket,
    timer::Timer,
};
use crate::{
    args::{HoldArgs, OnLost},
    commands::{
        Context,
        acquire::{Bounds, acquire, lost},
        bell::Bell,
    },
    exit::{Failure, UNREACHABLE, USAGE},
    json::Object,
    text::quoted_name,
};

/// How often it is looked whether the socket is there still.
const LOOK: Duration = Duration::from_secs(5);

/// How many may have a connection and ask nothing.
const CROWD: usize = 64;

/// The longest question, in bytes.
const LONGEST: usize = 128;

/// Takes the locks, and keeps them as long as they are to be kept.
pub(super) fn keep(context: &Context, args: &HoldArgs) -> Result<ExitCode, Failure> {
    let asker = Asker::take()?;
    let kept = begin(context, args, |text| asker.hand_over(text));
    match kept {
        Ok(keeper) => {
            drop(asker);
            keeper.keep();
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            let report = Outcome::Failed { code: failure.code() };
            // Before the asker ends, after which whoever reads what it says may not look any more.
            let code = failure.report();
            asker.tell(report.line().as_bytes());
            Ok(code)
        }
    }
}

/// The process that has started this one.
struct Asker {
    stream: Stream,
    /// Comes when we are to go on without it.
    released: Receiver<()>,
}

impl Asker {
    /// The one that our stdout is connected to. If it goes before it has let go of us, this process
    /// ends on the spot, and with it all that it has and waits for.
    fn take() -> Result<Self, Failure> {
        // Before anything is opened. What a service manager has passed was not for us.
        let _ = close_inherited();
        let failed = |error: io::Error| {
            Failure::new(UNREACHABLE, format_args!("cannot keep locks in the background: {error}"))
        };
        let stream = of_output().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => {
                Failure::new(USAGE, "only 'navlock hold' itself starts its keeper")
            }
            _ => failed(error),
        })?;
        let mut watched = stream.try_clone().map_err(failed)?;
        let (release, released) = channel();
        let watch = move || {
            let mut byte = [0];
            match watched.read_exact(&mut byte) {
                Ok(()) => _ = release.send(()),
                // The broker learns it from the kernel, as of anybody who dies.
                Err(_) => process::exit(1),
            }
        };
        let thread = thread::Builder::new().name("navlock-asker".to_owned());
        thread.spawn(watch).map_err(failed)?;
        Ok(Self { stream, released })
    }

    /// Has it write this, and returns when it has.
    fn hand_over(&self, text: &str) {
        self.tell((Outcome::Held { length: text.len() }.line() + text).as_bytes());
        // If it fails, the other thread is about to end this process.
        let _ = self.released.recv();
    }

    fn tell(&self, bytes: &[u8]) {
        // If it is gone, that is seen where it is heard.
        let _ = (&self.stream).write_all(bytes);
    }
}

/// What is held, and what its holder needs.
struct Held {
    guards: Vec<LockGuard>,
    locks: LockManager,
    reach: BrokerReach,
}

struct Keeper {
    /// `None` once a lock was lost.
    held: Option<Held>,
    /// What became of the lock that was lost.
    lost: String,
    socket: Socket,
    process: Option<Process>,
    on_lost: OnLost,
    timer: Timer,
    /// What the time was to begin with, if it is bounded.
    time: Option<Duration>,
    /// Readable when there is something to be heard of the locks.
    rung: Stream,
    waker: Waker,
    /// Those who have a connection and have not asked yet.
    callers: Vec<Stream>,
}

/// Takes the locks, leaves the asker's terminal and streams, and hands over what is to be written.
///
/// All that can fail is done before the locks are waited for, as far as that can be.
fn begin(
    context: &Context,
    args: &HoldArgs,
    hand_over: impl FnOnce(&str),
) -> Result<Keeper, Failure> {
    let names = args.all_names();
    keep_files_private();
    // No path is meant from here any more, and no file system is held for us.
    let _ = std::env::set_current_dir("/");
    let process = args.while_pid.map(Process::open).transpose()?;
    let info = described(args, process.as_ref())?;
    let bounds = Bounds::of(&args.request);
    let reach = context.connect(bounds.reaching())?;
    let locks = context.lock_manager(&reach);
    locks.describe(&info);
    let no_room = |error: io::Error| {
        let directory = context.place.holds();
        let message = format_args!(
            "the lock was not taken, because what releases it again cannot be made in {}: {error}",
            directory.display()
        );
        Failure::new(UNREACHABLE, message.to_string())
    };
    let cannot = |error: io::Error| {
        Failure::new(UNREACHABLE, format_args!("cannot keep locks in the background: {error}"))
    };
    let mut socket = Socket::prepare(&context.place, locks.client_id()).map_err(no_room)?;
    let (rung, rings) = Stream::pair().map_err(cannot)?;
    rung.set_nonblocking(true).and_then(|()| rings.set_nonblocking(true)).map_err(cannot)?;
    let mut timer = Timer::new().map_err(cannot)?;
    // Nobody blocks for an answer of the broker while they are kept.
    reach.keep().map_err(cannot)?;
    let guards = acquire(context, &locks, &names, &args.request, bounds, args.steal)?;
    socket.publish().map_err(no_room)?;
    if let Some(time) = args.ttl {
        timer.extend(time).map_err(cannot)?;
    }
    let text = written(&locks, &names, &guards, args.json);
    leave(context).map_err(cannot)?;
    hand_over(&text);
    Ok(Keeper {
        held: Some(Held { guards, locks, reach }),
        lost: String::new(),
        socket,
        process,
        on_lost: args.on_lost,
        timer,
        time: args.ttl,
        rung,
        waker: Waker::from(Arc::new(Bell::new(rings))),
        callers: Vec::new(),
    })
}

/// Leaves what belongs to the asker and those who started it: terminal, process group, streams, and
/// signals that it does not heed. Until here this process was to end with them.
fn leave(context: &Context) -> io::Result<()> {
    context.voice.detail("the locks are kept in the background");
    // We lead no group: the asker has started us in its own.
    leave_terminal();
    descriptor::leave(&[descriptor::Stream::Error])?;
    inheritance::reset_signals();
    Ok(())
}

/// What others see of the holder: the process that is meant, if one is.
fn described(args: &HoldArgs, process: Option<&Process>) -> Result<AgentInfo, Failure> {
    let mut info = this_process();
    match process {
        Some(process) => {
            info.pid = process.number();
            info.command = process.name();
        }
        // It is this process that has to be killed should nobody know the id any more.
        None => "navlock hold".clone_into(&mut info.command),
    }
    args.request.describe(&mut info)?;
    Ok(info)
}

/// What the asker is to write.
fn written(
    locks: &LockManager,
    names: &[ResourceName],
    guards: &[LockGuard],
    json: bool,
) -> String {
    let id = locks.client_id().to_string();
    // In the order in which the names were given, which is not that of the locks.
    let at = |name| guards.binary_search_by(|guard| guard.name().cmp(name));
    let held: Vec<_> = names.iter().filter_map(|name| guards.get(at(name).ok()?)).collect();
    if json {
        let lock = |guard: &&LockGuard| {
            Object::default()
                .name("name", guard.name())
                .string("mode", guard.mode().as_str())
                .string("fencingToken", &guard.fencing_token().to_string())
        };
        let locks: Vec<_> = held.iter().map(lock).collect();
        return format!("{}\n", Object::default().string("id", &id).objects("locks", &locks));
    }
    held.iter().fold(id + "\n", |text, guard| format!("{text}{}\n", guard.fencing_token()))
}

impl Keeper {
    /// Keeps the locks until the end of the hold, and releases them.
    fn keep(mut self) {
        self.look_for_losses();
        let answered = self.wait();
        // Free before anybody is told so.
        let held = self.held.take();
        if let Some(Held { guards, locks, reach }) = held {
            drop(guards);
            // FAST: the rest ends with this process, which ends now; the broker sees to our file.
            mem::forget((locks, reach));
        }
        if let Some(caller) = answered {
            let answer = if self.lost.is_empty() {
                Answer::Released
            } else {
                Answer::Lost(mem::take(&mut self.lost))
            };
            tell(&caller, &answer);
        }
    }

    /// Waits for the end of the hold. Who has asked for it, if somebody has.
    fn wait(&mut self) -> Option<Stream> {
        loop {
            let came = self.poll();
            if came.end || self.timer.left().is_zero() {
                return None;
            }
            if came.ring {
                let mut bytes = [0; 64];
                while (&self.rung).read(&mut bytes).is_ok_and(|length| length > 0) {}
                self.look_for_losses();
            }
            for index in came.callers.into_iter().rev() {
                let caller = self.callers.remove(index);
                match hear(&caller) {
                    Some(Question::Release) => return Some(caller),
                    Some(Question::Extend(time)) => tell(&caller, &self.extended(time)),
                    None => {}
                }
            }
            self.callers.extend((0..CROWD).map_while(|_| self.socket.accept()));
            // Who has had a connection for longest and asked nothing makes room.
            let crowd = self.callers.len().saturating_sub(CROWD);
            self.callers.drain(..crowd);
            // If there is no room, there may be later.
            let _ = self.socket.mend();
        }
    }

    /// Waits until something comes, or it is time to look.
    fn poll(&self) -> Came {
        let fixed = [
            Some(self.rung.source()),
            Some(self.socket.listener().source()),
            self.process.as_ref().map(Process::source),
            self.timer.source(),
        ];
        let has_process = self.process.is_some();
        let asked: Vec<_> = fixed
            .into_iter()
            // What is asked for twice says the same twice.
            .map(|source| source.unwrap_or(self.rung.source()))
            .chain(self.callers.iter().map(Source::source))
            .map(|source| (source, Interest::READ))
            .collect();
        // What it fails with is that a signal has come.
        let came = wait_many(&asked, Some(LOOK.min(self.timer.left()))).unwrap_or_default();
        let has_come = |index: usize| came.get(index).is_some_and(|came| came.any());
        let callers = (0..self.callers.len()).filter(|index| has_come(index + fixed.len()));
        Came { ring: has_come(0), end: has_process && has_come(2), callers: callers.collect() }
    }

    /// Releases all if one of the locks is lost. If none is, all will ring when they are.
    fn look_for_losses(&mut self) {
        let Some(held) = &self.held else { return };
        let context = task::Context::from_waker(&self.waker);
        let Some((name, how)) = lost(&held.guards, &context) else { return };
        self.lost = format!("{}: {how}", quoted_name(&name));
        self.held = None;
        let signal = match self.on_lost {
            OnLost::Terminate => Signal::TERMINATE,
            OnLost::Kill => Signal::KILL,
            OnLost::Ignore => return,
        };
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    fn extended(&mut self, time: Option<Duration>) -> Answer {
        if self.held.is_none() {
            return Answer::Lost(self.lost.clone());
        }
        let Some(usual) = self.time else {
            let process = self.process.as_ref().map_or(0, Process::number);
            return Answer::Refused(format!(
                "it has no time that it ends by: it ends when process {process} has ended"
            ));
        };
        match self.timer.extend(time.unwrap_or(usual)) {
            Ok(()) => Answer::Extended(self.timer.left()),
            Err(error) => Answer::Refused(format!("its time cannot be set: {error}")),
        }
    }
}

/// What was waited for and has come.
struct Came {
    ring: bool,
    /// Of the process.
    end: bool,
    /// Which of the callers have said something, or have gone.
    callers: Vec<usize>,
}

/// What a caller asks, of whom something has come. Whoever sends no question is hung up on.
fn hear(mut caller: &Stream) -> Option<Question> {
    let mut bytes = [0; LONGEST];
    // It was written in one piece.
    let length = caller.read(&mut bytes).ok().filter(|&length| length > 0)?;
    let question = std::str::from_utf8(&bytes[..length]).ok().and_then(Question::parse);
    if question.is_none() {
        let said = "the process that keeps it is of another release, and knows no such question";
        tell(caller, &Answer::Refused(said.to_owned()));
    }
    question
}

fn tell(mut caller: &Stream, answer: &Answer) {
    // It has room for a line, and who does not wait for it does not miss it.
    let _ = caller.write_all(answer.line().as_bytes());
}
