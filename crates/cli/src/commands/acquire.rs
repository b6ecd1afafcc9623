//! Having several locks, or one, as was asked.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{self, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use navlock::{
    Error, LockGuard, LockManager, LockOptions, Lost, ResourceName, blocking::block_on_timeout,
};

use super::Context;
use crate::{
    args::RequestArgs,
    exit::{self, Failure},
    text::quoted_name,
    time::taken,
    waiting::Waiting,
};

/// What the wait came to, or what it was interrupted for.
enum Event {
    Answered(Result<Option<LockGuard>, Error>),
    /// Another lock was lost meanwhile: that of this name.
    Lost(ResourceName, Lost),
    /// There is something new to show.
    Shown,
}

/// Has the locks of these names, which are taken one after the other in the order of the names, as
/// [`lock_all`](LockManager::lock_all) does. All of them, or none.
pub(super) fn acquire(
    context: &Context,
    locks: &LockManager,
    names: &[ResourceName],
    args: &RequestArgs,
    steal: bool,
) -> Result<Vec<LockGuard>, Failure> {
    // Not to wait at all is not to give up before the broker could have answered.
    let at_once = args.timeout == Some(Duration::ZERO) && !steal;
    let options = LockOptions {
        mode: args.mode(),
        if_available: args.nonblock || at_once,
        steal,
        ..LockOptions::default()
    };
    let deadline = args
        .timeout
        .filter(|timeout| !timeout.is_zero())
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let mut ordered: Vec<_> = names.iter().collect();
    ordered.sort();
    let mut guards = Vec::with_capacity(names.len());
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    for name in ordered {
        let since = Instant::now();
        match lock(context, locks, name, options, deadline, &guards, &alarm)? {
            Some(guard) => {
                context.voice.detail(format_args!(
                    "took {} ({}) after {}; fence {}",
                    quoted_name(name),
                    guard.mode(),
                    taken(since.elapsed()),
                    guard.fencing_token()
                ));
                // From now on it rings when it is lost.
                if guard.poll_lost(&task::Context::from_waker(&waker)).is_ready() {
                    alarm.wake_by_ref();
                }
                guards.push(guard);
            }
            None => return Err(conflict(context, name, args)),
        }
    }
    match lost(&guards, &task::Context::from_waker(Waker::noop())) {
        Some((name, lost)) => Err(lost_early(&name, lost)),
        None => Ok(guards),
    }
}

/// Waits for one lock, while others may be held already. `None` if it could not be had, or not in
/// time.
fn lock(
    context: &Context,
    locks: &LockManager,
    name: &ResourceName,
    options: LockOptions,
    deadline: Option<Instant>,
    guards: &[LockGuard],
    alarm: &Alarm,
) -> Result<Option<LockGuard>, Failure> {
    let mut request = pin!(locks.lock_with(name.clone(), options).into_future());
    let mut waiting = Waiting::new(locks, name, options.mode, context.voice);
    loop {
        let until = deadline.into_iter().chain(waiting.next()).min();
        let left =
            until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let event = poll_fn(|context| {
            // The grant before all else: nothing that is shown holds it up.
            if let Poll::Ready(answer) = request.as_mut().poll(context) {
                return Poll::Ready(Event::Answered(answer));
            }
            if alarm.has_rung(context) {
                if let Some((name, lost)) = lost(guards, context) {
                    return Poll::Ready(Event::Lost(name, lost));
                }
            }
            waiting.poll(context).map(|()| Event::Shown)
        });
        match block_on_timeout(event, left) {
            Some(Event::Answered(answer)) => return Ok(answer?),
            Some(Event::Lost(name, lost)) => return Err(lost_early(&name, lost)),
            Some(Event::Shown) => {}
            None if deadline.is_some_and(|deadline| deadline <= Instant::now()) => return Ok(None),
            None => waiting.tick(),
        }
    }
}

/// Rings when one of many locks is lost: to ask each of them whenever something happens would take
/// as long for the many as there are many.
#[derive(Default)]
struct Alarm {
    rung: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl Alarm {
    /// Whether it has; it will wake whoever asks.
    fn has_rung(&self, context: &task::Context<'_>) -> bool {
        let known = self.sleeper().replace(context.waker().clone());
        drop(known);
        self.rung.load(Ordering::SeqCst)
    }

    fn sleeper(&self) -> MutexGuard<'_, Option<Waker>> {
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        let sleeper = self.sleeper().take();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

/// Which of the locks is lost, and how, if one is.
/// If none is, all of them will wake whoever asks.
pub(super) fn lost(
    guards: &[LockGuard],
    context: &task::Context<'_>,
) -> Option<(ResourceName, Lost)> {
    guards.iter().find_map(|guard| match guard.poll_lost(context) {
        Poll::Ready(lost) => Some((guard.name().clone(), lost)),
        Poll::Pending => None,
    })
}

fn lost_early(name: &ResourceName, lost: Lost) -> Failure {
    let name = quoted_name(name);
    Failure::new(exit::LOST, format_args!("{name}: {lost}, before all locks were had; try again"))
}

/// The lock could not be had, or not in time, which is one of the things that were asked for.
fn conflict(context: &Context, name: &ResourceName, args: &RequestArgs) -> Failure {
    if let Some(timeout) = args.timeout {
        context.voice.tell(format_args!(
            "{} could not be had within {} s; wait longer, or see 'navlock query'",
            quoted_name(name),
            timeout.as_secs_f64()
        ));
    }
    Failure::silent(args.conflict_exit_code)
}
