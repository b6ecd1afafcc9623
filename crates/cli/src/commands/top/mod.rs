//! `navlock top`: who holds what, who waits, and for how long, as it happens.
//!
//! The [`model`] is what is looked at, and what keys do to it; the [`view`] makes a screen of it. Neither
//! knows of a terminal, which is here, nor of a broker, which [`looker`] listens to.

mod data;
mod looker;
mod measures;
mod model;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use navlock::{Place, look::LockName};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Signal, getpgrp, kill_process_group},
};
use signal_hook::{
    consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH},
    low_level,
};

use self::{
    data::Heard,
    looker::{Messages, Sender},
    model::{Holder, Model, Wish},
    terminal::Screen,
};
use super::{Context, thief};
use crate::{
    args::TopArgs,
    dispositions::is_ignored,
    exit::{Failure, SIGNALLED, UNREACHABLE, USAGE},
    remedy::Here,
    terminal as streams,
    text::quoted_name,
};

/// How often what has happened is drawn at most.
const PERIOD: Duration = Duration::from_millis(100);

/// How often it is drawn though nothing has happened: times go by.
const TICK: Duration = Duration::from_secs(1);

/// For how long what was heard is taken in before keys are listened to.
const SHARE: Duration = Duration::from_millis(50);

pub(super) fn top(context: &Context, args: &TopArgs) -> Result<ExitCode, Failure> {
    if !terminal::is_there() {
        let why = "top draws on a terminal, and this is none that it can draw on; 'navlock query --watch' \
                   shows the same again and again, and 'navlock watch' what happens";
        return Err(Failure::new(USAGE, why));
    }
    context.tell_if_secluded();
    let socket = context.place.socket().display().to_string();
    let mut model = Model::new(Here::new(&context.place), socket, Instant::now());
    model.allow_steal = args.allow_steal;
    model.colours = streams::colours(context.colour);
    if context.bucket != "default" {
        model.bucket = Some(context.bucket.clone());
    }
    let failed =
        |error: io::Error| Failure::new(UNREACHABLE, format_args!("cannot show it: {error}"));
    let (sender, heard) = Messages::channel().map_err(failed)?;
    looker::look(context.place.clone(), sender).map_err(failed)?;
    let (thief, stolen) = Messages::channel().map_err(failed)?;
    let signals = Signals::catch().map_err(failed)?;
    let top =
        Top { model, heard, stolen, thief: Arc::new(thief), place: context.place.clone(), signals };
    // A terminal that has gone is told by what is seen of it first: an error, or the signal.
    let end = top
        .show()
        .or_else(|error| if terminal::has_gone() { Ok(Some(SIGHUP)) } else { Err(error) });
    match end {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(signal)) => {
            // As it would have ended without being caught, which shells want to know.
            let _ = low_level::emulate_default_handler(signal);
            Err(Failure::silent(SIGNALLED + u8::try_from(signal).unwrap_or(0)))
        }
        Err(error) => Err(failed(error)),
    }
}

/// All that goes on.
struct Top {
    model: Model,
    heard: Messages<Heard>,
    /// What came of stealing.
    stolen: Messages<String>,
    thief: Arc<Sender<String>>,
    place: Place,
    signals: Signals,
}

/// Why it ends: by a key, or by a signal.
type End = Option<i32>;

impl Top {
    fn show(mut self) -> io::Result<End> {
        let mut screen = Screen::take()?;
        // When it is drawn in any case, and when at the soonest for what was heard.
        let mut due = Instant::now();
        let mut soonest = due;
        let mut is_behind = false;
        loop {
            let now = Instant::now();
            if now >= due {
                self.model.tick(now);
                self.model.size = screen.size()?;
                screen.draw(|buffer| view::draw(&self.model, buffer))?;
                due = now + TICK;
                // Where there is much to draw, there is to be time for other things.
                soonest = Instant::now() + PERIOD.max(4 * now.elapsed());
            }
            let ready = self.wait(if is_behind { now } else { due })?;
            if let Some(signal) = ready.signal {
                match signal {
                    SIGWINCH => {}
                    SIGCONT => screen.return_to()?,
                    signal => return Ok(Some(signal)),
                }
                due = now;
            }
            if ready.has_hung_up {
                return Ok(Some(SIGHUP));
            }
            if ready.keys {
                for key in terminal::pressed()? {
                    match self.model.press(key) {
                        None => {}
                        Some(Wish::Quit) => return Ok(None),
                        Some(Wish::Interrupt) => return Ok(Some(SIGINT)),
                        Some(Wish::Redraw) => screen.redraw()?,
                        Some(Wish::Suspend) => self.suspend(&mut screen)?,
                        Some(Wish::Steal(name, from)) => self.steal(name, from),
                    }
                }
                due = now;
            }
            if ready.stolen {
                self.stolen.quiet();
                while let Some(message) = self.stolen.next() {
                    self.model.tell(message);
                    due = now;
                }
            }
            if ready.heard || is_behind {
                let news;
                (news, is_behind) = self.hear();
                if news {
                    due = due.min(soonest);
                }
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, until: Instant) -> io::Result<Ready> {
        let keys = terminal::keys();
        let mut polled: Vec<_> =
            self.signals.0.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
        polled.push(PollFd::new(&keys, PollFlags::IN));
        polled.push(PollFd::from_borrowed_fd(self.heard.descriptor(), PollFlags::IN));
        polled.push(PollFd::from_borrowed_fd(self.stolen.descriptor(), PollFlags::IN));
        let left = until.saturating_duration_since(Instant::now());
        match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) => {}
            // Which signal it was is heard in the next round.
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let is = |index: usize, flags| polled[index].revents().intersects(flags);
        let first = self.signals.0.len();
        let signal = (0..first).find(|index| is(*index, PollFlags::IN));
        Ok(Ready {
            signal: signal.map(|index| self.signals.take(index)),
            keys: is(first, PollFlags::IN),
            has_hung_up: is(first, PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
            heard: is(first + 1, PollFlags::IN),
            stolen: is(first + 2, PollFlags::IN),
        })
    }

    /// Takes in what was heard. Whether there was anything, and whether there may be more.
    fn hear(&mut self) -> (bool, bool) {
        self.heard.quiet();
        let (began, mut news) = (Instant::now(), false);
        while let Some(heard) = self.heard.next() {
            news |= !matches!(&heard, Heard::Events(events) if events.is_empty());
            self.model.hear(heard);
            if began.elapsed() > SHARE {
                return (news, true);
            }
        }
        (news, false)
    }

    /// Gives the terminal to the shell, until that brings us back.
    fn suspend(&self, screen: &mut Screen) -> io::Result<()> {
        terminal::give_back();
        // As the terminal does when it is not ours. Where there is no shell to come back to, the kernel
        // does nothing.
        let _ = kill_process_group(getpgrp(), Signal::TSTP);
        // All threads have stopped by the time that this is over, if they are to stop at all.
        let continued = self.signals.0.iter().find(|(signal, _)| *signal == SIGCONT);
        let mut polled: Vec<_> =
            continued.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)).collect();
        let _ = poll(&mut polled, Timespec::try_from(PERIOD).ok().as_ref());
        screen.return_to()
    }

    /// Takes a lock from these, if nobody else holds it, and lets go of it.
    fn steal(&mut self, name: LockName, from: Vec<Holder>) {
        let (place, thief) = (self.place.clone(), Arc::clone(&self.thief));
        let thread = thread::Builder::new().name("navlock-steal".to_owned());
        let spawned = thread.spawn(move || {
            let shown = quoted_name(&name.name);
            let message = match thief::steal(&place, &name, &from, "navlock top") {
                Ok(()) => format!("{shown} was stolen; whoever was next has it now"),
                Err(why) => format!("{shown}: {why}"),
            };
            thief.send(message);
        });
        self.model.tell(match spawned {
            Ok(_) => "stealing …".to_owned(),
            Err(error) => format!("nothing was stolen: {error}"),
        });
    }
}

/// What there is to do.
#[expect(clippy::struct_excessive_bools, reason = "they have nothing to do with each other")]
#[derive(Default)]
struct Ready {
    signal: Option<i32>,
    keys: bool,
    has_hung_up: bool,
    heard: bool,
    stolen: bool,
}

/// The signals that matter, each with a pipe in which there is a byte when it has come.
struct Signals(Vec<(i32, UnixStream)>);

impl Signals {
    fn catch() -> io::Result<Self> {
        let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT, SIGWINCH];
        // What was ignored when we were started is to be ignored.
        let heeded = all.into_iter().filter(|signal| !is_ignored(*signal));
        let pipes = heeded.map(|signal| {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            low_level::pipe::register(signal, theirs)?;
            Ok((signal, ours))
        });
        pipes.collect::<io::Result<_>>().map(Self)
    }

    /// The signal has been seen.
    fn take(&self, index: usize) -> i32 {
        let (signal, pipe) = &self.0[index];
        let mut bytes = [0; 256];
        let mut pipe = pipe;
        while pipe.read(&mut bytes).is_ok_and(|read| read == bytes.len()) {}
        *signal
    }
}
