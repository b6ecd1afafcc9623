//! Boa.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    pin::Pin,
    rc::Rc,
    sync::{Mutex, PoisonError},
    task::{self, Poll, Waker},
};

use boa_engine::{
    Context, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue, NativeFunction, Script,
    Source,
    builtins::promise::{OperationType, Promise, PromiseState},
    context::HostHooks,
    job::{GenericJob, Job, JobExecutor, NativeAsyncJob, PromiseJob},
    js_string,
    module::{Module, ModuleLoader, ModuleRequest, Referrer},
    native_function::NativeFunctionPointer,
    object::{
        ObjectInitializer,
        builtins::{JsFunction, JsPromise, JsSharedArrayBuffer},
    },
};
use navlock_boa::{Locks, LocksExtension};

use super::{Failure, Host, Open, PRELUDE, Setup, Vm};

/// A context of Boa.
pub(crate) struct Boa {
    context: Context,
    rejections: Rc<Rejections>,
    deliver: JsFunction,
    /// Modules whose top level has not ended.
    importing: Vec<JsPromise>,
    /// The index of the lock manager that is asked first for a task.
    turn: usize,
}

/// What the functions of `native` need.
struct Native {
    host: Host,
    open: Open,
}

impl Vm for Boa {
    const ENGINE: &'static str = "Boa 0.22";

    fn new(Setup { locks, host, open, stop: _ }: Setup) -> Result<Self, Failure> {
        let rejections = Rc::new(Rejections::default());
        let context = Context::builder()
            .job_executor(Rc::new(Microtasks::default()))
            .host_hooks(Rc::clone(&rejections))
            .module_loader(Rc::new(Files::default()))
            .can_block(true)
            .build();
        let mut context = context.map_err(|error| thrown(&error))?;
        context.insert_data(Native { host, open });
        let made = prepare(&mut context).and_then(|deliver| {
            LocksExtension::new(locks).driven_by_host().register(None, &mut context)?;
            Ok(deliver)
        });
        let deliver = made.map_err(|error| thrown(&error))?;
        Ok(Self { context, rejections, deliver, importing: Vec::new(), turn: 0 })
    }

    fn import(&mut self, file: &Path) -> Result<(), Failure> {
        let module = load(file, &mut self.context).map_err(|error| thrown(&error))?;
        let promise = module.load_link_evaluate(&mut self.context);
        self.importing.push(promise);
        self.run_microtasks(Ok(()))
    }

    fn is_importing(&self) -> bool {
        !self.importing.is_empty()
    }

    fn deliver(&mut self, event: &str) -> Result<(), Failure> {
        let event = JsString::from(event).into();
        let called = self.deliver.call(&JsValue::undefined(), &[event], &mut self.context);
        self.run_microtasks(called.map(drop))
    }

    fn poll_locks(&mut self, context: &mut task::Context<'_>) -> Poll<()> {
        let mut poll = Poll::Pending;
        for locks in Locks::all(&self.context) {
            if locks.poll_ready(context).is_ready() {
                poll = Poll::Ready(());
            }
        }
        poll
    }

    fn run_lock_task(&mut self) -> Result<(), Failure> {
        let all = Locks::all(&self.context);
        self.turn += 1;
        for at in 0..all.len() {
            let run = all[(self.turn + at) % all.len()].run_task(&mut self.context);
            if !matches!(run, Ok(false)) {
                return self.run_microtasks(run.map(drop));
            }
        }
        Ok(())
    }

    fn is_waiting(&self) -> bool {
        Locks::all(&self.context).iter().any(Locks::is_waiting)
    }
}

impl Boa {
    /// Runs all microtasks after a task with this outcome. If several things fail, this returns the
    /// first failure.
    fn run_microtasks(&mut self, task: JsResult<()>) -> Result<(), Failure> {
        let microtasks = self.context.run_jobs();
        let mut outcome = task.and(microtasks).map_err(|error| thrown(&error));
        let rejections = &self.rejections;
        self.importing.retain(|module| match module.state() {
            PromiseState::Pending => true,
            PromiseState::Fulfilled(_) => false,
            PromiseState::Rejected(reason) => {
                rejections.forget(module);
                let failed = Failure::Uncaught(shown(&reason));
                outcome = std::mem::replace(&mut outcome, Ok(())).and(Err(failed));
                false
            }
        });
        let rejected = self.rejections.take();
        match (outcome, rejected) {
            (Ok(()), Some(reason)) => Err(Failure::Rejected(shown(&reason))),
            (outcome, _) => outcome,
        }
    }
}

/// Makes what scripts find beyond the language and `navigator.locks`. Returns the function
/// `deliver`.
fn prepare(context: &mut Context) -> JsResult<JsFunction> {
    let functions: [(JsString, usize, NativeFunctionPointer); 6] = [
        (js_string!("host"), 2, host),
        (js_string!("openLocks"), 2, open_locks),
        (js_string!("evaluate"), 2, evaluate),
        (js_string!("collectGarbage"), 0, collect_garbage),
        (js_string!("newMemory"), 1, new_memory),
        (js_string!("openMemory"), 1, open_memory),
    ];
    let mut native = ObjectInitializer::new(context);
    for (name, length, function) in functions {
        native.function(NativeFunction::from_fn_ptr(function), name, length);
    }
    let native = native.build();
    let prelude = Source::from_bytes(PRELUDE).with_path(Path::new("prelude.js"));
    let prelude = context.eval(prelude)?;
    let global = context.global_object().into();
    let undefined = JsValue::undefined();
    let deliver = callable(&prelude)?.call(&undefined, &[global, native.into()], context)?;
    callable(&deliver)
}

fn callable(value: &JsValue) -> JsResult<JsFunction> {
    let function = value.as_object().and_then(JsFunction::from_object);
    function.ok_or_else(|| JsNativeError::typ().with_message("not a function").into())
}

// The functions of `native`.

fn host(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let op = text(arguments, 0, context)?;
    let argument = match arguments.get(1) {
        Some(value) if !value.is_undefined() => Some(text(arguments, 1, context)?),
        _ => None,
    };
    let host = context.get_data::<Native>().map(|native| Rc::clone(&native.host));
    let answer = host.ok_or_else(no_host)?(&op, argument.as_deref()).map_err(error)?;
    Ok(answer.map_or_else(JsValue::undefined, |answer| JsString::from(answer.as_str()).into()))
}

fn open_locks(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let (kind, name) = (text(arguments, 0, context)?, text(arguments, 1, context)?);
    let open = context.get_data::<Native>().map(|native| Rc::clone(&native.open));
    let locks = open.ok_or_else(no_host)?(&kind, &name).map_err(error)?;
    let locks = LocksExtension::new(locks).driven_by_host().open(None, context)?;
    Ok(locks.object(context)?.into())
}

fn evaluate(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let source = argument(arguments, 0).to_string(context)?.to_vec();
    let name = text(arguments, 1, context)?;
    let source = Source::from_utf16(&source).with_path(Path::new(&name));
    Script::parse(source, None, context)?.evaluate(context)
}

#[expect(clippy::unnecessary_wraps, reason = "as the engine calls it")]
fn collect_garbage(_: &JsValue, _: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    boa_gc::force_collect();
    Ok(JsValue::undefined())
}

/// Memory that all threads can open. It lives as long as the process.
static MEMORY: Mutex<Vec<boa_engine::builtins::array_buffer::SharedArrayBuffer>> =
    Mutex::new(Vec::new());

fn new_memory(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let length = argument(arguments, 0).to_index(context)?;
    let length = usize::try_from(length).map_err(|_| error("no memory is as long".to_owned()))?;
    let buffer = JsSharedArrayBuffer::new(length, context)?;
    let mut memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    memory.push(buffer.inner());
    Ok(JsValue::from(memory.len()))
}

fn open_memory(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let number = argument(arguments, 0).to_index(context)?;
    let memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let buffer = at.and_then(|at| memory.get(at)).cloned();
    drop(memory);
    let buffer = buffer.ok_or_else(|| error(format!("there is no memory {number}")))?;
    Ok(JsSharedArrayBuffer::from_buffer(buffer, context).into())
}

fn argument(arguments: &[JsValue], at: usize) -> JsValue {
    arguments.get(at).cloned().unwrap_or_default()
}

fn text(arguments: &[JsValue], at: usize, context: &mut Context) -> JsResult<String> {
    Ok(argument(arguments, at).to_string(context)?.to_std_string_lossy())
}

fn error(message: String) -> JsError {
    JsNativeError::error().with_message(message).into()
}

fn no_host() -> JsError {
    error("the program is gone".to_owned())
}

/// Modules, which are files.
#[derive(Default)]
struct Files(RefCell<HashMap<PathBuf, Module>>);

impl ModuleLoader for Files {
    async fn load_imported_module(
        self: Rc<Self>,
        referrer: Referrer,
        request: ModuleRequest,
        context: &RefCell<&mut Context>,
    ) -> JsResult<Module> {
        let specifier = request.specifier().to_std_string_lossy();
        let folder = referrer.path().and_then(Path::parent).unwrap_or(Path::new("."));
        load(&folder.join(specifier), &mut context.borrow_mut())
    }

    fn init_import_meta(
        self: Rc<Self>,
        import_meta: &JsObject,
        module: &Module,
        context: &mut Context,
    ) {
        let Some(path) = module.path() else { return };
        let url = JsString::from(format!("file://{}", path.display()));
        // The object is new, so nothing makes it refuse the property.
        let _ = import_meta.create_data_property_or_throw(js_string!("url"), url, context);
    }
}

fn load(file: &Path, context: &mut Context) -> JsResult<Module> {
    let cannot = |cause| error(format!("cannot read the module {}: {cause}", file.display()));
    let path = file.canonicalize().map_err(cannot)?;
    let files = context.downcast_module_loader::<Files>().ok_or_else(no_host)?;
    if let Some(module) = files.0.borrow().get(&path) {
        return Ok(module.clone());
    }
    let source = fs::read(&path).map_err(cannot)?;
    let module = Module::parse(Source::from_bytes(&source).with_path(&path), None, context)?;
    files.0.borrow_mut().insert(path, module.clone());
    Ok(module)
}

/// The job queue of a host whose event loop is elsewhere. `run_jobs` runs all jobs, and the jobs
/// that these queue.
#[derive(Default)]
struct Microtasks {
    promises: RefCell<VecDeque<PromiseJob>>,
    others: RefCell<VecDeque<GenericJob>>,
    /// Jobs that load modules. None of them waits for anything, because modules are files.
    modules: RefCell<VecDeque<NativeAsyncJob>>,
}

impl JobExecutor for Microtasks {
    fn enqueue_job(self: Rc<Self>, job: Job, _: &mut Context) {
        match job {
            Job::PromiseJob(job) => self.promises.borrow_mut().push_back(job),
            Job::GenericJob(job) => self.others.borrow_mut().push_back(job),
            Job::AsyncJob(job) => self.modules.borrow_mut().push_back(job),
            // The prelude has its own timers, and nothing here needs to know what was collected.
            _ => {}
        }
    }

    fn run_jobs(self: Rc<Self>, context: &mut Context) -> JsResult<()> {
        let mut outcome = Ok(());
        loop {
            // Each queue is borrowed in a statement of its own, because a running job queues more.
            let promise_job = self.promises.borrow_mut().pop_front();
            let done = if let Some(job) = promise_job {
                job.call(context)
            } else if let Some(job) = { self.modules.borrow_mut().pop_front() } {
                at_once(job, context)
            } else if let Some(job) = { self.others.borrow_mut().pop_front() } {
                job.call(context)
            } else {
                context.clear_kept_objects();
                return outcome;
            };
            outcome = outcome.and(done.map(drop));
        }
    }
}

fn at_once(job: NativeAsyncJob, context: &mut Context) -> JsResult<JsValue> {
    let context = RefCell::new(context);
    let mut job = job.call(&context);
    let polled = Pin::new(&mut job).poll(&mut task::Context::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(error("a job waits that nobody would wake".to_owned())),
    }
}

/// Promises that are rejected and that no script handles.
#[derive(Default)]
struct Rejections(RefCell<Vec<JsObject<Promise>>>);

impl Rejections {
    fn forget(&self, promise: &JsObject<Promise>) {
        self.0.borrow_mut().retain(|other| !JsObject::equals(other, promise));
    }

    /// The reason of the first promise. No promise is left after this.
    fn take(&self) -> Option<JsValue> {
        let rejected = self.0.take();
        let first = rejected.into_iter().next()?;
        match JsPromise::from(first).state() {
            PromiseState::Rejected(reason) => Some(reason),
            PromiseState::Pending | PromiseState::Fulfilled(_) => None,
        }
    }
}

impl HostHooks for Rejections {
    fn promise_rejection_tracker(
        &self,
        promise: &JsObject<Promise>,
        operation: OperationType,
        _: &mut Context,
    ) {
        match operation {
            OperationType::Reject => self.0.borrow_mut().push(promise.clone()),
            OperationType::Handle => self.forget(promise),
        }
    }
}

fn thrown(error: &JsError) -> Failure {
    Failure::Uncaught(error.to_string())
}

fn shown(reason: &JsValue) -> String {
    JsError::from_opaque(reason.clone()).to_string()
}
