//! Tasks: what waits for something, and goes on between two turns of a thread.

use std::{
    cell::Cell,
    convert::Infallible,
    future::poll_fn,
    io,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use navlock_platform::readiness::Readiness;
use tokio::sync::oneshot;

use super::{awaited, timers};
use crate::sync::lock;

/// How many tasks that [take turns](in_turn) go on between two turns of the thread.
const MOST_AT_ONCE: usize = 64;

thread_local! {
    /// How many more of these tasks go on before the next turn of this thread.
    static LEFT: Cell<usize> = const { Cell::new(MOST_AT_ONCE) };
}

/// The tasks of a thread.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Option<New>>);

/// The tasks that have not begun.
#[derive(Default)]
struct New {
    tasks: Vec<BoxFuture<'static, ()>>,
    waker: Option<Waker>,
}

/// The tasks of this thread as they go on. If this is dropped, they end.
pub(super) struct Running {
    new: Arc<Tasks>,
    tasks: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// Whether tasks are to go on.
struct Woken {
    is_woken: AtomicBool,
    /// Ends the thread's wait.
    thread: Waker,
}

impl Tasks {
    /// Begins a task. A panic ends the task alone. If the thread has ended its tasks, or has none yet, this one ends at
    /// once.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = AssertUnwindSafe(task).catch_unwind().map(drop).boxed();
        let mut new = lock(&self.0);
        let Some(New { tasks, waker }) = &mut *new else {
            // What it has may lead to more tasks.
            drop(new);
            return drop(task);
        };
        tasks.push(task);
        let waker = waker.clone();
        drop(new);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Running {
    /// From now on these are the tasks of this thread.
    pub(super) fn begin(tasks: &Arc<Tasks>) -> Self {
        *lock(&tasks.0) = Some(New::default());
        Self { new: Arc::clone(tasks), tasks: FuturesUnordered::new() }
    }

    /// Goes on with the tasks that are woken.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        LEFT.set(MOST_AT_ONCE);
        if let Some(new) = &mut *lock(&self.new.0) {
            new.waker = Some(context.waker().clone());
            self.tasks.extend(new.tasks.drain(..));
        }
        while let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(context) {}
    }

    /// Goes on with the tasks, and with `main` until that is done. In between, `wait` waits, for as long as it is told,
    /// or until `waker` is called.
    pub(super) fn run<T>(
        mut self,
        waker: Waker,
        main: impl Future<Output = T>,
        mut wait: impl FnMut(&dyn Fn() -> Option<Duration>),
    ) -> T {
        let mut main = pin!(main);
        let woken = Arc::new(Woken { is_woken: AtomicBool::new(true), thread: waker });
        let waker = Arc::clone(&woken).into();
        let mut context = Context::from_waker(&waker);
        loop {
            if woken.is_woken.swap(false, SeqCst) {
                self.go_on(&mut context);
                if let Poll::Ready(done) = main.as_mut().poll(&mut context) {
                    return done;
                }
            }
            let next = timers::wake_due();
            let is_woken = || woken.is_woken.load(SeqCst);
            wait(&|| if is_woken() { Some(Duration::ZERO) } else { next });
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What they have may lead to more tasks, which end at once.
        let left = lock(&self.new.0).take();
        drop(left);
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, SeqCst) {
            self.thread.wake_by_ref();
        }
    }
}

/// One of many tasks, or one that is begun again and again: only so many go on before the thread's next turn.
pub(super) async fn in_turn<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|context| {
        let Some(left) = LEFT.get().checked_sub(1) else {
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        LEFT.set(left);
        task.as_mut().poll(context)
    })
    .await
}

/// Lets others go on first.
pub(super) async fn yield_now() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A thread that has nothing but tasks. It ends when this is dropped.
pub(super) struct TaskThread {
    tasks: Arc<Tasks>,
    _end: oneshot::Sender<Infallible>,
}

impl TaskThread {
    /// Starts a thread of this name, which first does `begin`, and keeps what that returns until its end.
    ///
    /// # Errors
    ///
    /// If no thread can be had, or there are no descriptors left.
    pub(super) fn start<T>(
        name: &str,
        begin: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let tasks = Arc::new(Tasks::default());
        let (end, ended) = oneshot::channel();
        let (told, is_told) = mpsc::channel();
        let theirs = Arc::clone(&tasks);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _kept = begin();
            let running = Running::begin(&theirs);
            let made = Readiness::new();
            let readiness = made.map_err(|error| told.send(Err(error)));
            let Ok(mut readiness) = readiness else { return };
            awaited::begin(readiness.registry());
            let _ = told.send(Ok(()));
            let mut found = Vec::new();
            // It ends when the sender is dropped; nothing is ever sent.
            _ = running.run(readiness.waker(), ended, |within| {
                readiness.wait(&mut found, within);
                found.drain(..).for_each(|found| _ = awaited::tell(found));
            });
        })?;
        is_told.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
        Ok(Self { tasks, _end: end })
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_panics_ends_alone_and_no_task_begins_after_the_end() {
        let tasks = Arc::new(Tasks::default());
        let (done, is_done) = mpsc::channel();
        let tell = |what| {
            let done = done.clone();
            tasks.spawn(async move {
                done.send(what).unwrap();
                yield_now().await;
                assert_eq!(what, "well");
            });
        };
        tell("too early");
        let mut running = Running::begin(&tasks);
        tell("ill");
        tell("well");
        (0..3).for_each(|_| running.go_on(&mut Context::from_waker(Waker::noop())));
        assert!(running.tasks.is_empty());
        drop(running);
        tell("too late");
        assert_eq!(is_done.try_iter().collect::<Vec<_>>(), ["ill", "well"]);
    }

    #[test]
    fn of_many_tasks_only_some_go_on_before_the_thread_has_its_turn() {
        let tasks = Arc::new(Tasks::default());
        let mut running = Running::begin(&tasks);
        for _ in 0..3 * MOST_AT_ONCE {
            tasks.spawn(in_turn(async {}));
        }
        for turn in 1..=3 {
            running.go_on(&mut Context::from_waker(Waker::noop()));
            assert_eq!(running.tasks.len(), (3 - turn) * MOST_AT_ONCE);
        }
    }
}
