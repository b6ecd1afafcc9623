//! QuickJS-NG, through rquickjs.

use std::{
    cell::RefCell,
    fs,
    path::Path,
    rc::Rc,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use navlock_rquickjs::Locks;
use rquickjs::{
    ArrayBuffer, ArrayBufferSource, CatchResultExt, CaughtError, Ctx, Error, Exception, Function,
    Module, Object, Persistent, Promise, Runtime, Value,
    context::EvalOptions,
    function::Opt,
    loader::{ImportAttributes, Loader, Resolver},
    module::Declared,
    promise::PromiseState,
};

use super::{Failure, PRELUDE, Setup, Vm};

/// How much stack the calls of scripts may take, in bytes. The thread's stack has room for more.
const STACK: usize = 16 << 20;

/// A context of QuickJS-NG.
pub(crate) struct QuickJs {
    // These are dropped in this order: the values of the context, the context, and with it the
    // runtime.
    deliver: Persistent<Function<'static>>,
    module: Option<Persistent<Promise<'static>>>,
    rejections: Rejections,
    /// This number grows with each task, so each agent of the context gets its turn to be asked
    /// first.
    turn: usize,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    context: rquickjs::Context,
}

/// Promises that were rejected and that no script has handled so far, each with its reason.
type Rejections = Rc<RefCell<Vec<(Persistent<Value<'static>>, String)>>>;

impl Vm for QuickJs {
    const ENGINE: &'static str = "QuickJS-NG (rquickjs 0.14)";

    fn new(setup: Setup) -> Result<Self, Failure> {
        let runtime = Runtime::new().map_err(engine)?;
        runtime.set_max_stack_size(STACK);
        runtime.set_loader(Modules, Modules);
        let stop = setup.stop.clone();
        runtime.set_interrupt_handler(Some(Box::new({
            let stop = stop.clone();
            move || stop.load(Ordering::SeqCst)
        })));
        let rejections = Rejections::default();
        runtime.set_host_promise_rejection_tracker(Some(Box::new({
            let rejections = Rc::clone(&rejections);
            move |ctx, promise, reason, is_handled| {
                let promise = Persistent::save(&ctx, promise);
                // This may run a script, and that script may call this function again.
                let described = (!is_handled).then(|| describe(&ctx, &reason));
                let mut rejections = rejections.borrow_mut();
                rejections.retain(|(other, _)| *other != promise);
                rejections.extend(described.map(|error| (promise, error)));
            }
        })));
        let context = rquickjs::Context::full(&runtime).map_err(engine)?;
        let deliver = context.with(|ctx| {
            let deliver = open(&ctx, setup).catch(&ctx).map_err(uncaught)?;
            Ok(Persistent::save(&ctx, deliver))
        })?;
        Ok(Self { deliver, module: None, rejections, turn: 0, stop, context })
    }

    fn import(&mut self, file: &Path) -> Result<(), Failure> {
        let name = file.to_string_lossy().into_owned();
        self.run(|ctx, module| {
            let promise = Module::import(ctx, name)?;
            *module = Some(Persistent::save(ctx, promise));
            Ok(())
        })
    }

    fn is_importing(&self) -> bool {
        self.module.is_some()
    }

    fn deliver(&mut self, event: &str) -> Result<(), Failure> {
        let deliver = self.deliver.clone();
        self.run(|ctx, _| deliver.restore(ctx)?.call::<_, ()>((event,)))
    }

    fn poll_locks(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // This asks every agent, because an agent wakes only tasks that have asked it.
        let is_ready = |locks: &Locks<'_>| locks.poll_ready(context).is_ready();
        let ready = self.context.with(|ctx| Locks::all(&ctx).filter(is_ready).count());
        if ready > 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn run_lock_task(&mut self) -> Result<(), Failure> {
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        self.run(|ctx, _| {
            let count = Locks::all(ctx).count();
            let in_turn = Locks::all(ctx).chain(Locks::all(ctx)).skip(turn % count.max(1));
            for locks in in_turn.take(count) {
                if locks.run_task()? {
                    break;
                }
            }
            Ok(())
        })
    }

    fn is_waiting(&self) -> bool {
        self.context.with(|ctx| Locks::all(&ctx).any(|locks| locks.is_waiting()))
    }
}

impl QuickJs {
    /// Runs scripts, and then microtasks until none is left.
    fn run(
        &mut self,
        run: impl FnOnce(&Ctx<'_>, &mut Option<Persistent<Promise<'static>>>) -> rquickjs::Result<()>,
    ) -> Result<(), Failure> {
        let module = &mut self.module;
        let outcome = self.context.with(|ctx| {
            run(&ctx, module).catch(&ctx).map_err(uncaught)?;
            while ctx.execute_pending_job() {}
            let Some(promise) = module.clone() else { return Ok(()) };
            let promise = promise.restore(&ctx).map_err(engine)?;
            if promise.state() == PromiseState::Pending {
                return Ok(());
            }
            *module = None;
            promise.result::<()>().map_or(Ok(()), |result| result.catch(&ctx).map_err(uncaught))
        });
        if self.stop.load(Ordering::SeqCst) {
            return Err(Failure::Stopped);
        }
        outcome?;
        let rejections = self.rejections.take();
        rejections.into_iter().next().map_or(Ok(()), |(_, error)| Err(Failure::Rejected(error)))
    }
}

impl Drop for QuickJs {
    fn drop(&mut self) {
        self.rejections.take();
        self.module = None;
    }
}

fn open<'js>(ctx: &Ctx<'js>, setup: Setup) -> rquickjs::Result<Function<'js>> {
    let Setup { locks, host, open, .. } = setup;
    let native = Object::new(ctx.clone())?;
    let thrown = |ctx: &Ctx<'js>, message: String| Exception::throw_message(ctx, &message);
    native.set(
        "host",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, op: String, text: Opt<Option<String>>| {
            host(&op, text.0.flatten().as_deref()).map_err(|message| thrown(&ctx, message))
        })?,
    )?;
    native.set(
        "openLocks",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, kind: String, name: String| {
            let locks = open(&kind, &name).map_err(|message| thrown(&ctx, message))?;
            Ok::<_, Error>(Locks::open(&ctx, locks)?.object())
        })?,
    )?;
    native.set(
        "evaluate",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, source: String, name: String| {
            let mut options = EvalOptions::default();
            options.strict = false;
            options.filename = Some(name);
            ctx.eval_with_options::<Value<'js>, _>(source, options)
        })?,
    )?;
    native.set("collectGarbage", Function::new(ctx.clone(), |ctx: Ctx<'js>| ctx.run_gc())?)?;
    native.set("newMemory", Function::new(ctx.clone(), new_memory)?)?;
    native.set(
        "openMemory",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, number: usize| match memory(number) {
            Some(memory) => ArrayBuffer::from_source_shared(ctx, memory),
            None => Err(thrown(&ctx, format!("there is no memory {number}"))),
        })?,
    )?;
    let prelude: Function<'_> = ctx.eval(PRELUDE)?;
    let deliver = prelude.call((ctx.globals(), native))?;
    let _ = navlock_rquickjs::register(ctx, locks)?;
    Ok(deliver)
}

// ---- Modules

/// Modules by their path. There are no packages, and nothing is added to a name.
struct Modules;

impl Resolver for Modules {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        let folder = Path::new(base).parent().unwrap_or(Path::new("/"));
        let file = folder.join(name).canonicalize();
        let file =
            file.map_err(|error| Error::new_resolving_message(base, name, error.to_string()))?;
        Ok(file.to_string_lossy().into_owned())
    }
}

impl Loader for Modules {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        Module::declare(ctx.clone(), name, fs::read(name)?)
    }
}

// ---- Memory that threads share

/// Memory of this length, in bytes, that is never freed.
#[derive(Clone, Copy)]
struct Memory {
    words: &'static [AtomicU64],
    length: usize,
}

static MEMORIES: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

fn new_memory(length: usize) -> usize {
    let words = (0..length.div_ceil(8)).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    let mut memories = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    memories.push(Memory { words, length });
    memories.len() - 1
}

fn memory(number: usize) -> Option<Memory> {
    MEMORIES.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied()
}

// SAFETY: the words are never freed, and they have at least `length` bytes. They are atomics. So
// anybody with a reference to them may see them change, and may change them through that reference.
#[expect(unsafe_code, reason = "what rquickjs asks for, for memory of the program")]
unsafe impl ArrayBufferSource for Memory {
    fn as_ptr(&self) -> *mut u8 {
        self.words.as_ptr().cast_mut().cast()
    }

    fn len(&self) -> usize {
        self.length
    }
}

// ---- What has failed

#[expect(clippy::needless_pass_by_value, reason = "so that it is what `map_err` takes")]
fn engine(error: Error) -> Failure {
    Failure::Engine(error.to_string())
}

fn uncaught(error: CaughtError<'_>) -> Failure {
    match error {
        CaughtError::Error(error) => engine(error),
        CaughtError::Exception(exception) => {
            Failure::Uncaught(describe(exception.ctx(), exception.as_value()))
        }
        CaughtError::Value(value) => Failure::Uncaught(describe(value.ctx(), &value)),
    }
}

/// A thrown value for people: its name, its message and its stack.
fn describe<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    let text = || -> rquickjs::Result<String> {
        let stack = value.as_object().map(|object| object.get::<_, Option<String>>("stack"));
        let text = ctx.globals().get::<_, Function<'_>>("String")?.call::<_, String>((value,))?;
        Ok(match stack.transpose()?.flatten() {
            Some(stack) => format!("{text}\n{}", stack.trim_end()),
            None => text,
        })
    };
    text().unwrap_or_else(|_| {
        drop(ctx.catch());
        "a value that cannot be shown".to_owned()
    })
}
