//! Tasks: what waits for something, and goes on between two turns of a thread.

use std::{
    cell::Cell,
    convert::Infallible,
    future::poll_fn,
    io,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use navlock_platform::readiness::Readiness;
use tokio::sync::{
    mpsc::{self, UnboundedReceiver, UnboundedSender},
    oneshot,
};

use super::{awaited, timers};

/// How many tasks that [take turns](in_turn) go on between two turns of the thread.
const MOST_AT_ONCE: usize = 64;

thread_local! {
    /// How many more of these tasks go on before the next turn of this thread.
    static LEFT: Cell<usize> = const { Cell::new(MOST_AT_ONCE) };
}

/// Begins the tasks of a thread. Where none run yet, or none any more, a task ends at once.
#[derive(Default)]
pub(super) struct Tasks(OnceLock<UnboundedSender<BoxFuture<'static, ()>>>);

/// The tasks of this thread as they go on. If this is dropped, they end.
pub(super) struct Running {
    new: UnboundedReceiver<BoxFuture<'static, ()>>,
    tasks: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// Whether tasks are to go on.
struct Woken {
    is_woken: AtomicBool,
    /// Ends the thread's wait.
    thread: Waker,
}

impl Tasks {
    /// Begins a task. A panic ends the task alone.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.0.get() {
            let task = AssertUnwindSafe(task).catch_unwind().map(drop).boxed();
            // If the tasks have ended, this one does as well.
            let _ = tasks.send(task);
        }
    }
}

impl Running {
    /// From now on these are the tasks of this thread.
    pub(super) fn begin(tasks: &Tasks) -> Self {
        let (begun, new) = mpsc::unbounded_channel();
        // A thread begins its tasks once.
        let _ = tasks.0.set(begun);
        Self { new, tasks: FuturesUnordered::new() }
    }

    /// Goes on with the tasks that are woken.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) {
        LEFT.set(MOST_AT_ONCE);
        while let Poll::Ready(Some(task)) = self.new.poll_recv(context) {
            self.tasks.push(task);
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
        let (told, is_told) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&tasks);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let running = Running::begin(&theirs);
            let made = Readiness::new();
            let readiness = made.map_err(|error| told.send(Err(error)));
            let Ok(mut readiness) = readiness else { return };
            awaited::begin(readiness.registry());
            let _ = told.send(Ok(()));
            // This comes late: who waits for the thread does not wait for one of low priority.
            let _kept = begin();
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
        let (done, is_done) = std::sync::mpsc::channel();
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
