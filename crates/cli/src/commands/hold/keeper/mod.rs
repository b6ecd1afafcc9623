//! The process that holds the locks, until the hold ends.

mod connection;
mod serving;

use std::{io, process::ExitCode};

use navlock::{AgentInfo, LockGuard, LockManager, ResourceName, this_process};
use navlock_platform::{
    descriptor,
    inheritance::{self, keep_files_private},
    process::{self, Handle, leave_terminal},
};

use self::{
    connection::{Asker, cannot},
    serving::{Held, Keeper},
};
use super::{args::HoldArgs, guard::Guard, process::open, socket::Socket, timer::Timer};
use crate::{
    args::{OnLost, Take},
    commands::{Context, acquire::Request, named::in_order_of, stream_waker::WakeEnd},
    exit::{Failure, UNREACHABLE},
    json::Object,
};

/// Ends the text that the asker has to write. The text is empty if the keeper has failed: then the exit code
/// follows, which is one byte.
pub(super) const END_OF_TEXT: u8 = 0;

/// Takes the locks, and keeps them until the hold ends.
pub(super) fn keep(context: &Context, args: &HoldArgs) -> Result<ExitCode, Failure> {
    let asker = Asker::take()?;
    let kept =
        begin(context, args, |text| asker.hand_over(&[text.as_bytes(), &[END_OF_TEXT]].concat()));
    match kept {
        Ok(keeper) => {
            asker.tell(b"\n");
            drop(asker);
            keeper.keep();
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            let code = failure.code();
            // The failure is reported before the asker ends, because after that perhaps nobody reads
            // the output.
            let ended = failure.report();
            asker.tell(&[END_OF_TEXT, code]);
            Ok(ended)
        }
    }
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
    args.request.check_names(&names)?;
    keep_files_private();
    // No relative path is used from here on, and the file system of the former working folder can
    // be unmounted.
    let _ = std::env::set_current_dir("/");
    let process = args.while_pid.map(open).transpose()?;
    let info = described(args, process.as_ref())?;
    let request = Request::new(context, &args.request)?;
    let locks = &request.locks;
    locks.describe(&info);
    let no_socket = |error: io::Error, what: &str| {
        let directory = context.place.holds();
        let message = format_args!(
            "{what}, because the socket for its release cannot be made in {}: {error}",
            directory.display()
        );
        Failure::new(UNREACHABLE, message.to_string())
    };
    let mut socket = Socket::prepare(&context.place, locks.client_id())
        .map_err(|error| no_socket(error, "the lock was not taken"))?;
    let (wake_end, waker) = WakeEnd::new().map_err(cannot)?;
    let mut timer = Timer::new().map_err(cannot)?;
    // While the locks are kept, no thread waits for an answer of the broker. So without this call,
    // no thread would read the broker's messages.
    request.reach.keep().map_err(cannot)?;
    let take = if args.steal { Take::Stolen } else { Take::All };
    let guards = request.acquire(&names, take)?;
    socket.publish().map_err(|error| no_socket(error, "the lock was taken and released again"))?;
    if let Some(time) = args.ttl {
        timer.extend(time).map_err(cannot)?;
    }
    let text = written(locks, &names, &guards, args.json);
    let guard = leave(context, args).map_err(cannot)?;
    hand_over(&text);
    guard.iter().for_each(Guard::say);
    let Request { reach, locks, .. } = request;
    Ok(Keeper {
        held: Some(Held { guards, locks, reach }),
        lost: String::new(),
        socket,
        process,
        on_lost: args.on_lost,
        guard,
        timer,
        time: args.ttl,
        wake_end,
        waker,
        callers: Vec::new(),
    })
}

/// Leaves the asker's terminal, process group and streams, and its set of ignored signals. All of
/// these belong to whoever has started the asker. Up to this point, a signal to the terminal's
/// processes, such as the signal of ^C, had to end this process too.
///
/// A guard is started in between: it leaves all that with this process, and its failure can still be told.
fn leave(context: &Context, args: &HoldArgs) -> io::Result<Option<Guard>> {
    context.verbosity.detail("the locks are kept in the background");
    // This process leads no process group, because the asker has started it in its own group.
    leave_terminal();
    inheritance::reset_signals();
    let guard = (args.on_lost != OnLost::Ignore).then(Guard::start).transpose()?;
    descriptor::leave(&[descriptor::Stream::Error])?;
    Ok(guard)
}

/// The description of the holder for others: the process that the hold is for, if there is one.
fn described(args: &HoldArgs, process: Option<&Handle>) -> Result<AgentInfo, Failure> {
    let mut info = this_process();
    // Who waits for a hold that ends by itself does not wait for ever.
    if args.ttl.is_none() {
        info.keeper = info.pid;
    }
    match process {
        Some(process) => {
            info.pid = process.number();
            info.command = process::name(process.number());
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
    let held = in_order_of(names, guards);
    if json {
        let lock = |guard: &&LockGuard| {
            Object::default()
                .name("name", guard.name())
                .string("mode", guard.mode().as_str())
                .fencing_token(guard.fencing_token())
        };
        let locks: Vec<_> = held.iter().map(lock).collect();
        return format!("{}\n", Object::default().string("id", &id).objects("locks", &locks));
    }
    held.iter().fold(id + "\n", |text, guard| format!("{text}{}\n", guard.fencing_token()))
}
