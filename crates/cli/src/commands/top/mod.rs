//! `navlock top`: who holds what, who waits, and for how long, as it happens.
//!
//! The [`model`] is the state of the program, which keys change. The [`view`] makes a screen of the
//! model. Neither knows of the terminal, which is handled here, or of the broker, to which
//! [`looker`] listens.

mod args;
mod data;
mod key;
mod keys;
mod looker;
mod model;
mod order;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::{
    io,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use navlock::{Place, look::LockName};
use navlock_platform::{
    process::Signal,
    signal::{self, CaughtSignals},
    wait::{Interest, Source, wait_many},
};

pub(crate) use self::args::TopArgs;
use self::{
    data::Heard,
    looker::{Messages, Sender},
    model::{Model, Wish},
    terminal::Screen,
};
use super::Context;
use crate::{
    exit::{Failure, SIGNALLED, UNREACHABLE, USAGE},
    remedy::Here,
    steal::{Holder, steal},
    terminal as streams,
    text::quoted_name,
};

/// The shortest time between two drawings that events cause.
const PERIOD: Duration = Duration::from_millis(100);

/// The longest time between two drawings, because the times on the screen go on even if nothing
/// happens.
const TICK: Duration = Duration::from_secs(1);

/// The signals that matter.
const HEEDED: [Signal; 6] = [
    Signal::HANG_UP,
    Signal::INTERRUPT,
    Signal::QUIT,
    Signal::TERMINATE,
    Signal::CONTINUE,
    Signal::RESIZED,
];

/// How long messages are taken in before keys are read again.
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
    let signals = CaughtSignals::catch(&HEEDED).map_err(failed)?;
    let top =
        Top { model, heard, stolen, thief: Arc::new(thief), place: context.place.clone(), signals };
    // Either an error or the signal tells that the terminal has gone, whichever is noticed first.
    let end = top
        .show()
        .or_else(|error| if terminal::has_gone() { Ok(Some(Signal::HANG_UP)) } else { Err(error) });
    match end {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(signal)) => {
            // The process ends as if the signal had not been caught, which shells want to know.
            signal::end_by(signal);
            Err(Failure::silent(SIGNALLED + u8::try_from(signal.number()).unwrap_or(0)))
        }
        Err(error) => Err(failed(error)),
    }
}

/// The running program.
struct Top {
    model: Model,
    heard: Messages<Heard>,
    /// The outcomes of stealing.
    stolen: Messages<String>,
    thief: Arc<Sender<String>>,
    place: Place,
    signals: CaughtSignals,
}

/// Why the program ends: by a key, or by a signal.
type End = Option<Signal>;

impl Top {
    fn show(mut self) -> io::Result<End> {
        let mut screen = Screen::take()?;
        // When to draw in any case, and the earliest time to draw because of events.
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
                // Even if drawing takes long, there must be time for other things.
                soonest = Instant::now() + PERIOD.max(4 * now.elapsed());
            }
            let ready = self.wait(if is_behind { now } else { due })?;
            if let Some(signal) = ready.signal {
                match signal {
                    Signal::RESIZED => {}
                    Signal::CONTINUE => screen.return_to()?,
                    signal => return Ok(Some(signal)),
                }
                due = now;
            }
            if ready.has_hung_up {
                return Ok(Some(Signal::HANG_UP));
            }
            if ready.keys {
                for key in terminal::pressed()? {
                    match self.model.press(key) {
                        None => {}
                        Some(Wish::Quit) => return Ok(None),
                        Some(Wish::Interrupt) => return Ok(Some(Signal::INTERRUPT)),
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
                    self.model.message = Some(message);
                    due = now;
                }
            }
            if ready.heard || is_behind {
                let news;
                (news, is_behind) = self.receive();
                if news {
                    due = due.min(soonest);
                }
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, until: Instant) -> io::Result<Ready> {
        let keys = terminal::keys();
        let mut asked: Vec<_> = self.signals.sources().map(|(_, source)| source).collect();
        let first = asked.len();
        asked.extend([keys.source(), self.heard.descriptor(), self.stolen.descriptor()]);
        let asked: Vec<_> = asked.into_iter().map(|source| (source, Interest::READ)).collect();
        let left = until.saturating_duration_since(Instant::now());
        let came = match wait_many(&asked, Some(left)) {
            Ok(came) => came,
            // The next round reads the signal.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(Ready::default());
            }
            Err(error) => return Err(error),
        };
        let signal = came[..first].iter().position(|came| came.readable);
        Ok(Ready {
            signal: signal.map(|index| self.signals.take(index)),
            keys: came[first].readable,
            has_hung_up: came[first].ended,
            heard: came[first + 1].readable,
            stolen: came[first + 2].readable,
        })
    }

    /// Takes in messages. Returns whether there were any, and whether there may be more.
    fn receive(&mut self) -> (bool, bool) {
        self.heard.quiet();
        let (began, mut news) = (Instant::now(), false);
        while let Some(heard) = self.heard.next() {
            news |= !matches!(&heard, Heard::Events(events) if events.is_empty());
            self.model.live.receive(heard);
            if began.elapsed() > SHARE {
                return (news, true);
            }
        }
        (news, false)
    }

    /// Gives the terminal to the shell, until the shell continues this program.
    fn suspend(&self, screen: &mut Screen) -> io::Result<()> {
        terminal::give_back();
        signal::suspend();
        // When this call returns, all threads that the signal stops have stopped.
        let continued = self.signals.sources().find(|(signal, _)| *signal == Signal::CONTINUE);
        let asked: Vec<_> = continued.iter().map(|(_, pipe)| (*pipe, Interest::READ)).collect();
        let _ = wait_many(&asked, Some(PERIOD));
        screen.return_to()
    }

    /// Steals a lock from these holders, if nobody else holds it, and releases it.
    fn steal(&mut self, name: LockName, from: Vec<Holder>) {
        let (place, thief) = (self.place.clone(), Arc::clone(&self.thief));
        let thread = thread::Builder::new().name("navlock-steal".to_owned());
        let spawned = thread.spawn(move || {
            let shown = quoted_name(&name.name);
            let message = match steal(&place, &name, &from, "navlock top") {
                Ok(()) => format!("{shown} was stolen; it goes to the next waiter"),
                Err(why) => format!("{shown}: {why}"),
            };
            thief.send(message);
        });
        self.model.message = Some(match spawned {
            Ok(_) => "stealing …".to_owned(),
            Err(error) => format!("nothing was stolen: {error}"),
        });
    }
}

/// What there is to do.
#[expect(clippy::struct_excessive_bools, reason = "they have nothing to do with each other")]
#[derive(Default)]
struct Ready {
    signal: Option<Signal>,
    keys: bool,
    has_hung_up: bool,
    heard: bool,
    stolen: bool,
}
