//! QuickJS-NG, by rquickjs.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use navlock::LockManager;
use navlock_rquickjs::Locks;
use rquickjs::{
    CatchResultExt, Context, Ctx, Error, Function, Object, Persistent, Promise, Result as JsResult,
    Runtime, Value, function::Opt,
};

use super::cases::{SCRIPT, Vm};

/// A callback of `task`, and the functions that resolve and reject its promise.
type Task = (Option<Persistent<Function<'static>>>, [Persistent<Function<'static>>; 2]);

pub(super) struct QuickJs {
    tasks: Rc<RefCell<VecDeque<Task>>>,
    is_done: Rc<Cell<bool>>,
    // Dropped last.
    context: Context,
}

impl Vm for QuickJs {
    const NAME: &'static str = "QuickJS";

    fn new(locks: LockManager) -> Result<Self, String> {
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let context = Context::full(&runtime).map_err(|error| error.to_string())?;
        let mut vm = Self { tasks: Rc::default(), is_done: Rc::default(), context };
        vm.with(|vm, ctx| {
            let _ = navlock_rquickjs::register(ctx, locks)?;
            let globals: Object<'_> = ctx.globals();
            globals.set("task", Function::new(ctx.clone(), queue_in(Rc::clone(&vm.tasks)))?)?;
            let is_done = Rc::clone(&vm.is_done);
            globals.set("done", Function::new(ctx.clone(), move || is_done.set(true))?)?;
            ctx.eval::<(), _>(SCRIPT)
        })?;
        Ok(vm)
    }

    fn eval(&mut self, source: &str) -> Result<(), String> {
        self.with(|_, ctx| {
            ctx.eval::<(), _>(source)?;
            while ctx.execute_pending_job() {}
            Ok(())
        })
    }

    fn turn(&mut self) -> Result<bool, String> {
        self.with(|vm, ctx| {
            let task = vm.tasks.borrow_mut().pop_front();
            let has_run = match task {
                Some(task) => run(task, ctx).map(|()| true)?,
                None => Locks::of(ctx).map_or(Ok(false), |locks| locks.run_task())?,
            };
            while ctx.execute_pending_job() {}
            Ok(has_run)
        })
    }

    fn is_done(&mut self) -> bool {
        self.is_done.replace(false)
    }
}

impl QuickJs {
    fn with<T>(
        &mut self,
        run: impl FnOnce(&mut Self, &Ctx<'_>) -> JsResult<T>,
    ) -> Result<T, String> {
        let context = self.context.clone();
        context.with(|ctx| run(self, &ctx).catch(&ctx).map_err(|error| error.to_string()))
    }
}

/// The function `task`.
fn queue_in<'js>(
    tasks: Rc<RefCell<VecDeque<Task>>>,
) -> impl Fn(Ctx<'js>, Opt<Function<'js>>) -> JsResult<Promise<'js>> {
    move |ctx, callback| {
        let (promise, resolve, reject) = Promise::new(&ctx)?;
        let callback = callback.0.map(|callback| Persistent::save(&ctx, callback));
        let functions = [resolve, reject].map(|function| Persistent::save(&ctx, function));
        tasks.borrow_mut().push_back((callback, functions));
        Ok(promise)
    }
}

fn run((callback, functions): Task, ctx: &Ctx<'_>) -> JsResult<()> {
    let [resolve, reject] = functions;
    let returned = match callback {
        Some(callback) => callback.restore(ctx)?.call::<_, Value<'_>>(()),
        None => Ok(Value::new_undefined(ctx.clone())),
    };
    match returned {
        Ok(value) => resolve.restore(ctx)?.call((value,)),
        Err(Error::Exception) => reject.restore(ctx)?.call((ctx.catch(),)),
        Err(error) => Err(error),
    }
}
