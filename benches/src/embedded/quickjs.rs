//! QuickJS-NG, by rquickjs.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use navlock::LockManager;
use navlock_rquickjs::Locks;
use rquickjs::{
    CatchResultExt, Context, Ctx, Function, Object, Persistent, Promise, Result as JsResult,
    Runtime,
};

use super::{SCRIPT, Vm};

pub(super) struct QuickJs {
    tasks: Rc<RefCell<VecDeque<Persistent<Function<'static>>>>>,
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
            let tasks = Rc::clone(&vm.tasks);
            let task = Function::new(ctx.clone(), move |ctx: Ctx<'_>| {
                let (promise, resolve, _) = Promise::new(&ctx)?;
                tasks.borrow_mut().push_back(Persistent::save(&ctx, resolve));
                JsResult::Ok(Persistent::save(&ctx, promise))
            })?;
            globals.set("task", task)?;
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
            let has_run = Locks::of(ctx).map_or(Ok(false), |locks| locks.run_task())?;
            let task = if has_run { None } else { vm.tasks.borrow_mut().pop_front() };
            let is_own = task.is_some();
            task.map_or(Ok(()), |task| task.restore(ctx)?.call::<_, ()>(()))?;
            while ctx.execute_pending_job() {}
            Ok(has_run || is_own)
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
