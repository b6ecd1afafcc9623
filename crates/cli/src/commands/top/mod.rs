//! `navlock top`: who holds what, who waits, and for how long, as it happens.
//!
//! The [`model`] is the state of the program, which keys change. The [`view`] makes a screen of the
//! model. Neither knows of the terminal, which is handled here, or of the broker, at which a thread of
//! its own looks.

mod args;
mod keys;
mod model;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::{
    io,
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use navlock::{Look, LookOptions, Place, look::LockName};
use navlock_platform::{
    process::Signal,
    signal::{self, CaughtSignals},
    wait::{Interest, Source, wait_many},
};

pub(crate) use self::args::TopArgs;
use self::{
    model::{Model, Wish},
    terminal::Screen,
};
use super::{Context, meeting::not_shown, stream_waker::WakeEnd};
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
    model.message = not_shown(context);
    if context.bucket != "default" {
        model.bucket = Some(context.bucket.clone());
    }
    let failed =
        |error: io::Error| Failure::new(UNREACHABLE, format_args!("cannot show it: {error}"));
    let model = Arc::new(Mutex::new(model));
    let (wake_end, waker) = WakeEnd::new().map_err(failed)?;
    let place = context.place.clone();
    look(place.clone(), Arc::clone(&model), waker.clone()).map_err(failed)?;
    let signals = CaughtSignals::catch(&HEEDED).map_err(failed)?;
    let top = Top { model, wake_end, waker, place, signals };
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

/// Looks at the broker, on a thread that takes what happens into the model. So keys are heard while the
/// broker does not answer.
fn look(place: Place, model: Arc<Mutex<Model>>, waker: Waker) -> io::Result<()> {
    let thread = thread::Builder::new().name("navlock-look".to_owned());
    thread.spawn(move || {
        // No lock should have to wait for this process.
        navlock_broker::lower_thread_priority();
        let mut look = Look::new(place, LookOptions::default());
        loop {
            let news = look.next(None);
            let has_failed = news.is_err();
            if lock(&model).live.take(&look, news) {
                waker.wake_by_ref();
            }
            if has_failed {
                thread::sleep(TICK);
            }
        }
    })?;
    Ok(())
}

/// A panic of another thread was told, and ends the drawing.
fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The running program.
struct Top {
    model: Arc<Mutex<Model>>,
    /// Readable when another thread has changed the model.
    wake_end: WakeEnd,
    waker: Waker,
    place: Place,
    signals: CaughtSignals,
}

/// Why the program ends: by a key, or by a signal.
type End = Option<Signal>;

impl Top {
    fn show(self) -> io::Result<End> {
        let mut screen = Screen::take()?;
        // When to draw in any case, and the earliest time to draw because of events.
        let mut due = Instant::now();
        let mut soonest = due;
        loop {
            let now = Instant::now();
            if now >= due {
                let mut model = lock(&self.model);
                model.tick(now);
                model.size = screen.size()?;
                screen.draw(|buffer| view::draw(&model, buffer))?;
                due = now + TICK;
                // Even if drawing takes long, there must be time for other things.
                soonest = Instant::now() + PERIOD.max(4 * now.elapsed());
            }
            let keys = terminal::keys();
            let sources = self.signals.sources().map(|(_, source)| source);
            let sources = sources.chain([keys.source(), self.wake_end.source()]);
            let asked: Vec<_> = sources.map(|source| (source, Interest::READ)).collect();
            let came = match wait_many(&asked, Some(due.saturating_duration_since(Instant::now())))
            {
                Ok(came) => came,
                // The next round reads the signal.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let [signals @ .., keys, news] = &came[..] else { continue };
            if let Some(index) = signals.iter().position(|came| came.readable) {
                match self.signals.take(index) {
                    Signal::RESIZED => {}
                    Signal::CONTINUE => screen.return_to()?,
                    signal => return Ok(Some(signal)),
                }
                due = now;
            }
            if keys.ended {
                return Ok(Some(Signal::HANG_UP));
            }
            if keys.readable {
                for key in terminal::pressed()? {
                    let wish = lock(&self.model).press(key);
                    match wish {
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
            if news.readable {
                self.wake_end.quiet();
                due = due.min(soonest);
            }
        }
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
    fn steal(&self, name: LockName, from: Vec<Holder>) {
        let (place, waker, model) =
            (self.place.clone(), self.waker.clone(), Arc::clone(&self.model));
        let thread = thread::Builder::new().name("navlock-steal".to_owned());
        let mut locked = lock(&self.model);
        let spawned = thread.spawn(move || {
            let shown = quoted_name(&name.name);
            let message = match steal(&place, &name, &from, "navlock top") {
                Ok(()) => format!("{shown} was stolen; it goes to the next waiter"),
                Err(why) => format!("{shown}: {why}"),
            };
            lock(&model).message = Some(message);
            waker.wake();
        });
        locked.message = Some(match spawned {
            Ok(_) => "stealing …".to_owned(),
            Err(error) => format!("nothing was stolen: {error}"),
        });
    }
}
