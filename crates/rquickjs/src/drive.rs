//! Runs the tasks of agents.

use std::{
    sync::Arc,
    task::{Context, Wake, Waker},
    thread::{self, Thread},
};

use rquickjs::{Error, Result};

use crate::Locks;

/// Runs all jobs of the context's runtime, and all tasks of the [agents](Locks::all) of this
/// context, until there are none and no agent [waits](Locks::is_waiting). Blocks the thread while
/// an agent waits.
///
/// This is for programs that use a `Runtime` and have no event loop of their own, as
/// `AsyncRuntime::idle` is for an `AsyncRuntime`. Programs with timers or several contexts need a
/// loop of their own: see [`Locks`].
///
/// # Errors
///
/// [`Error::Exception`], with the exception for `Ctx::catch`, if a microtask of a script throws, or a
/// script is interrupted. Another call goes on with the rest.
pub fn run(context: &rquickjs::Context) -> Result<()> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let finish_jobs = || {
        while context.runtime().execute_pending_job().map_err(|_| Error::Exception)? {}
        Ok::<_, Error>(())
    };
    loop {
        finish_jobs()?;
        // This runs one task of each agent in turn.
        let mut number = 0;
        let mut is_idle = true;
        while let Some(has_run) =
            context.with(|ctx| Locks::all(&ctx).nth(number).map(|locks| locks.run_task()))
        {
            is_idle &= !has_run?;
            finish_jobs()?;
            number += 1;
        }
        if !is_idle {
            continue;
        }
        let (is_ready, is_waiting) = context.with(|ctx| {
            let waker = &mut Context::from_waker(&waker);
            Locks::all(&ctx).fold((false, false), |(is_ready, is_waiting), locks| {
                (is_ready | locks.poll_ready(waker).is_ready(), is_waiting | locks.is_waiting())
            })
        });
        if !is_ready && !is_waiting {
            return Ok(());
        }
        if !is_ready {
            // If the thread was woken for nothing, the loop checks again.
            thread::park();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(not(feature = "futures"))]
impl crate::engine::Quick<'_, '_> {
    /// Does nothing, because without futures the host runs the tasks.
    #[expect(clippy::unused_self, reason = "it is, with futures")]
    pub(crate) fn spawn(&self) {}
}

#[cfg(feature = "futures")]
mod spawned {
    use std::{
        future::Future,
        pin::Pin,
        rc::Weak,
        task::{Context, Poll},
        thread,
    };

    use crate::{engine::Quick, home::Home};

    /// How many tasks run before other futures of the runtime get their turn.
    const AT_ONCE: usize = 16;

    impl Quick<'_, '_> {
        /// Spawns a future in the runtime that runs the tasks of this agent, if such a future is
        /// wanted and there is none.
        pub(crate) fn spawn(&self) {
            let Some(agent) = self.home.agent(self.number) else { return };
            let drive = &agent.drive;
            if drive.spawns.get() && !drive.is_spawned.replace(true) {
                let home = self.home.downgrade();
                self.ctx().spawn(Spawned { home, number: self.number });
            }
        }
    }

    /// Runs the tasks of an agent. This does not keep the context alive.
    struct Spawned<'js> {
        home: Weak<Home<'js>>,
        number: usize,
    }

    impl Future for Spawned<'_> {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            // From here to the end of the call, the object keeps the context alive.
            let home = self.home.upgrade().and_then(|home| home.object().cloned());
            let Some(home) = &home else { return Poll::Ready(()) };
            let mut engine = Quick { home, number: self.number };
            let Some(agent) = home.agent(self.number) else { return Poll::Ready(()) };
            for _ in 0..AT_ONCE {
                if agent.realm.poll_ready(context).is_pending() {
                    // This is checked after `poll_ready`, because its waker is also woken when the
                    // agent ends.
                    let stays = agent.drive.stays.get() && !agent.realm.has_ended();
                    if agent.realm.is_waiting() || stays {
                        return Poll::Pending;
                    }
                    agent.drive.is_spawned.set(false);
                    return Poll::Ready(());
                }
                // The script was stopped, and the request has ended. There is nobody else to tell.
                if agent.realm.run_task(&mut engine).is_err() {
                    drop(engine.ctx().catch());
                }
                // Without this, the runtime would run the microtasks after all tasks that are ready.
                while engine.ctx().execute_pending_job() {}
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }

    impl Drop for Spawned<'_> {
        fn drop(&mut self) {
            // A panic of a host's function has passed through this future, and the runtime does not
            // poll the future any more. The next request spawns another one.
            if thread::panicking() {
                let agent = self.home.upgrade().and_then(|home| home.agent(self.number));
                if let Some(agent) = agent {
                    agent.drive.is_spawned.set(false);
                }
            }
        }
    }
}
