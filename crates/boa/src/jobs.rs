//! The job by which the context's executor runs an agent's tasks.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
};

use boa_engine::{
    Context, JsResult, JsValue,
    job::{NativeAsyncJob, PromiseJob},
};

use crate::{
    agent::Agent,
    driver::{Driver, Jobs},
};

/// How many rounds of promise jobs pass before a task runs.
///
/// DEVIATION: a task should run when no microtask is left, but nobody can be asked whether one is. Executors
/// like Boa's own poll jobs like ours after each round, and not when no promise job is left. A round is what
/// the round before has queued.
const ROUNDS: u32 = 16;

impl Agent {
    /// Has the executor look after the agent as long as it waits for something. To be called whenever
    /// that may have changed.
    pub(crate) fn drive(self: &Rc<Self>, context: &mut Context) {
        let Driver::Jobs(jobs) = &self.driver else { return };
        if !self.is_wanted(jobs) {
            // This lets the job end.
            if let Some(waker) = jobs.waker.take() {
                waker.wake();
            }
        } else if !jobs.is_queued.replace(true) {
            let queued = Queued { agent: Rc::clone(self), is_followed: Cell::new(false) };
            let job = NativeAsyncJob::new(async move |context| queued.run(context).await);
            context.enqueue_job(job.into());
        }
    }

    /// Whether the job has something to wait for.
    fn is_wanted(&self, jobs: &Jobs) -> bool {
        self.requests.is_waiting() || jobs.is_until_end && !self.has_ended()
    }
}

/// Says, as long as it exists, that the executor has our job. The executor may drop the job: Boa's own drops
/// all jobs when another one fails.
struct Queued {
    agent: Rc<Agent>,
    /// Whether another job has taken the place of this one.
    is_followed: Cell<bool>,
}

impl Queued {
    async fn run(&self, context: &RefCell<&mut Context>) -> JsResult<JsValue> {
        while self.has_task().await {
            round(ROUNDS, context).await;
            let context = &mut context.borrow_mut();
            if let Err(error) = self.agent.run_task(context) {
                // Some executors go on after a job has failed.
                self.follow(context);
                return Err(error);
            }
        }
        Ok(JsValue::undefined())
    }

    fn follow(&self, context: &mut Context) {
        if let Driver::Jobs(jobs) = &self.agent.driver {
            self.is_followed.set(true);
            jobs.is_queued.set(false);
            self.agent.drive(context);
        }
    }

    /// Waits for a task. Returns `false` if there is nothing left to wait for.
    async fn has_task(&self) -> bool {
        let agent = &self.agent;
        let Driver::Jobs(jobs) = &agent.driver else { return false };
        poll_fn(|polled| {
            if agent.requests.poll_ready(polled).is_ready() {
                return Poll::Ready(true);
            }
            // After that, which is also woken when the agent ends.
            if !agent.is_wanted(jobs) {
                return Poll::Ready(false);
            }
            *jobs.waker.borrow_mut() = Some(polled.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Driver::Jobs(jobs) = &self.agent.driver
            && !self.is_followed.get()
        {
            jobs.is_queued.set(false);
        }
    }
}

/// Waits until a chain of `count` promise jobs has run, each of which was queued by the one before.
async fn round(count: u32, context: &RefCell<&mut Context>) {
    let passed = Rc::new(Passed::default());
    queue(count, Rc::clone(&passed), &mut context.borrow_mut());
    poll_fn(|polled| {
        if passed.is_over.get() {
            return Poll::Ready(());
        }
        *passed.waker.borrow_mut() = Some(polled.waker().clone());
        Poll::Pending
    })
    .await;
}

#[derive(Default)]
struct Passed {
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

fn queue(count: u32, passed: Rc<Passed>, context: &mut Context) {
    let job = PromiseJob::new(move |context| {
        if count > 1 {
            queue(count - 1, passed, context);
        } else {
            passed.is_over.set(true);
            if let Some(waker) = passed.waker.take() {
                waker.wake();
            }
        }
        Ok(JsValue::undefined())
    });
    context.enqueue_job(job.into());
}
