//! The process that holds the locks, until the hold ends.

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
    args::HoldArgs,
    outcome::Outcome,
    process::Process,
    question::{Answer, Question},
    socket::Socket,
    timer::Timer,
};
use crate::{
    args::OnLost,
    commands::{
        Context,
        acquire::{Bounds, acquire, lost},
        stream_waker::StreamWaker,
    },
    exit::{Failure, UNREACHABLE, USAGE},
    json::Object,
    text::quoted_name,
};

/// How often the keeper checks whether its socket is still there.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How many callers may have a connection without asking anything.
const MOST_CALLERS: usize = 64;

/// The longest question, in bytes.
const LONGEST: usize = 128;

/// Takes the locks, and keeps them until the hold ends.
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
            // The failure is reported before the asker ends, because after that perhaps nobody reads
            // the output.
            let code = failure.report();
            asker.tell(report.line().as_bytes());
            Ok(code)
        }
    }
}

/// The process that has started this one.
struct Asker {
    stream: Stream,
    /// Receives a message when the keeper has to go on without the asker.
    released: Receiver<()>,
}

impl Asker {
    /// The asker that this process's stdout is connected to. If the asker ends before it has
    /// released the keeper, the keeper ends at once, and with it all its locks and requests.
    fn take() -> Result<Self, Failure> {
        // This comes before anything is opened. Descriptors that a service manager has passed were
        // not meant for this process.
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
                // The kernel tells the broker of the end of this process, as it does when any
                // process ends.
                Err(_) => process::exit(1),
            }
        };
        let thread = thread::Builder::new().name("navlock-asker".to_owned());
        thread.spawn(watch).map_err(failed)?;
        Ok(Self { stream, released })
    }

    /// Lets the asker write this text, and returns when it has done so.
    fn hand_over(&self, text: &str) {
        self.tell((Outcome::Held { length: text.len() }.line() + text).as_bytes());
        // If this fails, the other thread is about to end this process.
        let _ = self.released.recv();
    }

    fn tell(&self, bytes: &[u8]) {
        // If the asker is gone, the thread that reads from it notices that.
        let _ = (&self.stream).write_all(bytes);
    }
}

/// The locks, and what their holder needs.
struct Held {
    guards: Vec<LockGuard>,
    locks: LockManager,
    reach: BrokerReach,
}

struct Keeper {
    /// The locks. `None` when one of them was lost.
    held: Option<Held>,
    /// The lock that was lost, and how, for people.
    lost: String,
    socket: Socket,
    process: Option<Process>,
    on_lost: OnLost,
    timer: Timer,
    /// The time of the hold as it was first set, if there is one.
    time: Option<Duration>,
    /// Readable when the broker may have told something about the locks.
    wake_end: Stream,
    waker: Waker,
    /// Callers that have a connection and have not asked yet.
    callers: Vec<Stream>,
}

/// Takes the locks, leaves the asker's terminal and streams, and hands over the text that the asker
/// has to write.
///
/// As far as possible, everything that can fail is done before the wait for the locks.
fn begin(
    context: &Context,
    args: &HoldArgs,
    hand_over: impl FnOnce(&str),
) -> Result<Keeper, Failure> {
    let names = args.all_names();
    keep_files_private();
    // No relative path is used from here on, and the file system of the former working folder can
    // be unmounted.
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
            "the lock was not taken, because the socket for its release cannot be made in {}: {error}",
            directory.display()
        );
        Failure::new(UNREACHABLE, message.to_string())
    };
    let cannot = |error: io::Error| {
        Failure::new(UNREACHABLE, format_args!("cannot keep locks in the background: {error}"))
    };
    let mut socket = Socket::prepare(&context.place, locks.client_id()).map_err(no_room)?;
    let (wake_end, waking_end) = Stream::pair().map_err(cannot)?;
    wake_end
        .set_nonblocking(true)
        .and_then(|()| waking_end.set_nonblocking(true))
        .map_err(cannot)?;
    let mut timer = Timer::new().map_err(cannot)?;
    // While the locks are kept, no thread waits for an answer of the broker. So without this call,
    // no thread would read the broker's messages.
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
        wake_end,
        waker: Waker::from(Arc::new(StreamWaker::new(waking_end))),
        callers: Vec::new(),
    })
}

/// Leaves the asker's terminal, process group and streams, and its set of ignored signals. All of
/// these belong to whoever has started the asker. Up to this point, a signal to the
/// terminal's processes, such as that of ^C, had to end this process too.
fn leave(context: &Context) -> io::Result<()> {
    context.voice.detail("the locks are kept in the background");
    // This process leads no process group, because the asker has started it in its own group.
    leave_terminal();
    descriptor::leave(&[descriptor::Stream::Error])?;
    inheritance::reset_signals();
    Ok(())
}

/// The description of the holder for others: the process that the hold is for, if there is one.
fn described(args: &HoldArgs, process: Option<&Process>) -> Result<AgentInfo, Failure> {
    let mut info = this_process();
    match process {
        Some(process) => {
            info.pid = process.number();
            info.command = process.name();
        }
        // Others are shown the keeper itself: the keeper is the process to kill if nobody knows the
        // hold's id any more.
        None => "navlock hold".clone_into(&mut info.command),
    }
    args.request.describe(&mut info)?;
    Ok(info)
}

/// The text that the asker has to write.
fn written(
    locks: &LockManager,
    names: &[ResourceName],
    guards: &[LockGuard],
    json: bool,
) -> String {
    let id = locks.client_id().to_string();
    // The tokens are in the order in which the names were given, which is not the order of the
    // locks.
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
        // The locks are released before anybody is told of the release.
        let held = self.held.take();
        if let Some(Held { guards, locks, reach }) = held {
            drop(guards);
            // FAST: everything else ends with this process, which ends now. The broker removes the
            // process's file.
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

    /// Waits for the end of the hold. Returns the caller that has asked for the end, if one has.
    fn wait(&mut self) -> Option<Stream> {
        loop {
            let came = self.poll();
            if came.end || self.timer.left().is_zero() {
                return None;
            }
            if came.wake {
                let mut bytes = [0; 64];
                while (&self.wake_end).read(&mut bytes).is_ok_and(|length| length > 0) {}
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
            self.callers.extend((0..MOST_CALLERS).map_while(|_| self.socket.accept()));
            // Of the callers that have not asked, the one that has been connected for longest makes
            // room.
            let surplus = self.callers.len().saturating_sub(MOST_CALLERS);
            self.callers.drain(..surplus);
            // If there is no room on the disk now, there may be room later.
            let _ = self.socket.mend();
        }
    }

    /// Waits until something comes, or until it is time to check the socket.
    fn poll(&self) -> WaitEvents {
        let fixed = [
            Some(self.wake_end.source()),
            Some(self.socket.listener().source()),
            self.process.as_ref().map(Process::source),
            self.timer.source(),
        ];
        let has_process = self.process.is_some();
        let asked: Vec<_> = fixed
            .into_iter()
            // In place of a source that is missing, `wake_end` is waited for once more. That does no
            // harm: it gives the same answer twice.
            .map(|source| source.unwrap_or(self.wake_end.source()))
            .chain(self.callers.iter().map(Source::source))
            .map(|source| (source, Interest::READ))
            .collect();
        // An error means that a signal has come.
        let came =
            wait_many(&asked, Some(CHECK_INTERVAL.min(self.timer.left()))).unwrap_or_default();
        let has_come = |index: usize| came.get(index).is_some_and(|came| came.any());
        let callers = (0..self.callers.len()).filter(|index| has_come(index + fixed.len()));
        WaitEvents {
            wake: has_come(0),
            end: has_process && has_come(2),
            callers: callers.collect(),
        }
    }

    /// Releases all locks if one of them is lost. If none is lost, the first loss wakes this thread.
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

/// Which of the events that were waited for have come.
struct WaitEvents {
    wake: bool,
    /// The process has ended.
    end: bool,
    /// The callers that have said something, or have gone.
    callers: Vec<usize>,
}

/// The question of a caller from whom something has come. The keeper hangs up on a caller that
/// sends no question.
fn hear(mut caller: &Stream) -> Option<Question> {
    let mut bytes = [0; LONGEST];
    // The caller has written its question in one piece.
    let length = caller.read(&mut bytes).ok().filter(|&length| length > 0)?;
    let question = std::str::from_utf8(&bytes[..length]).ok().and_then(Question::parse);
    if question.is_none() {
        let said = "the process that keeps it is of another release, and knows no such question";
        tell(caller, &Answer::Refused(said.to_owned()));
    }
    question
}

fn tell(mut caller: &Stream, answer: &Answer) {
    // The stream has room for a line. A caller that does not wait for the answer does not miss it.
    let _ = caller.write_all(answer.line().as_bytes());
}
