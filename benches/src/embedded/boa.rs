//! Boa.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use boa_engine::{
    Context, JsError, JsObject, JsValue, NativeFunction, Source,
    builtins::promise::ResolvingFunctions, js_string, object::builtins::JsPromise,
};
use navlock::LockManager;
use navlock_boa::{Locks, LocksExtension};

use super::cases::{SCRIPT, Vm};

/// A callback of `task`, and the functions that settle its promise.
type Task = (Option<JsObject>, ResolvingFunctions);

pub(super) struct Boa {
    tasks: Rc<RefCell<VecDeque<Task>>>,
    is_done: Rc<Cell<bool>>,
    locks: Locks,
    context: Context,
}

impl Vm for Boa {
    const NAME: &'static str = "Boa";

    fn new(locks: LockManager) -> Result<Self, String> {
        let mut context = Context::default();
        let (tasks, is_done) = (Rc::<RefCell<VecDeque<_>>>::default(), Rc::<Cell<_>>::default());
        let locks = LocksExtension::new(locks)
            .driven_by_host()
            .register(None, &mut context)
            .map_err(|error| error.to_string())?;
        let (queue, flag) = (Rc::clone(&tasks), Rc::clone(&is_done));
        // SAFETY: what they capture is no object of the collector's, and has none that it must trace:
        // those in the queue are its roots.
        let (task, done) = unsafe {
            let task = NativeFunction::from_closure(move |_, arguments, context| {
                let callback = arguments.first().and_then(JsValue::as_callable);
                let (promise, resolvers) = JsPromise::new_pending(context);
                queue.borrow_mut().push_back((callback, resolvers));
                Ok(promise.into())
            });
            let done = NativeFunction::from_closure(move |_, _, _| {
                flag.set(true);
                Ok(JsValue::undefined())
            });
            (task, done)
        };
        for (name, function) in [(js_string!("task"), task), (js_string!("done"), done)] {
            context
                .register_global_callable(name, 0, function)
                .map_err(|error| error.to_string())?;
        }
        let mut vm = Self { tasks, is_done, locks, context };
        vm.eval(SCRIPT)?;
        Ok(vm)
    }

    fn eval(&mut self, source: &str) -> Result<(), String> {
        let evaluated = self.context.eval(Source::from_bytes(source));
        evaluated.and_then(|_| self.context.run_jobs()).map_err(|error| error.to_string())
    }

    fn turn(&mut self) -> Result<bool, String> {
        let has_run = self.own_task()? || self.lock_task()?;
        self.context.run_jobs().map_err(|error| error.to_string())?;
        Ok(has_run)
    }

    fn is_done(&mut self) -> bool {
        self.is_done.replace(false)
    }
}

impl Boa {
    fn lock_task(&mut self) -> Result<bool, String> {
        self.locks.run_task(&mut self.context).map_err(|error: JsError| error.to_string())
    }

    fn own_task(&mut self) -> Result<bool, String> {
        let task = self.tasks.borrow_mut().pop_front();
        let Some((callback, ResolvingFunctions { resolve, reject })) = task else {
            return Ok(false);
        };
        let undefined = JsValue::undefined();
        let context = &mut self.context;
        let returned = match callback {
            Some(callback) => callback.call(&undefined, &[], context),
            None => Ok(JsValue::undefined()),
        };
        let settled = match returned {
            Ok(value) => resolve.call(&undefined, &[value], context),
            Err(error) => error
                .into_opaque(context)
                .and_then(|reason| reject.call(&undefined, &[reason], context)),
        };
        settled.map(|_| true).map_err(|error| error.to_string())
    }
}
