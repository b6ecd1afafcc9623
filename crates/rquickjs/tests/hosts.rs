//! Hosts that define objects of their own: these objects stay the host's.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(elided_lifetimes_in_paths, reason = "what rquickjs derives has such")]
#![allow(clippy::needless_pass_by_value, reason = "what rquickjs calls takes values")]

mod common;

use common::{abort_on_leaks, alone, define_kit, eval, log};
use navlock_rquickjs::{Locks, navlock::UserAgent, register, run};
use rquickjs::{
    Class, Context, Ctx, Function, JsLifetime, Object, Result, Runtime, Value, class::Trace,
    function::This,
};

/// A context that runs this script before `navigator.locks` is registered.
fn after(script: &str, define: impl FnOnce(&Ctx<'_>)) -> (Context, Runtime) {
    let runtime = Runtime::new().unwrap();
    let context = Context::full(&runtime).unwrap();
    context.with(|ctx| {
        abort_on_leaks(&ctx);
        define(&ctx);
        ctx.eval::<(), _>(script).unwrap();
        let _ = register(&ctx, UserAgent::new().lock_manager("app")).unwrap();
        define_kit(&ctx);
    });
    (context, runtime)
}

#[test]
fn the_navigator_of_the_host_gets_locks() {
    let plain = "globalThis.navigator = { userAgent: 'host/1.0' };";
    let of_a_class = "class Navigator { get userAgent() { return 'host/1.0'; } }
        globalThis.navigator = new Navigator();";
    for (script, owner) in [(plain, "navigator"), (of_a_class, "Object.getPrototypeOf(navigator)")]
    {
        let (context, _runtime) = after(script, |_| ());
        let told: String = eval(&context, &format!("
            const {{ get, set, enumerable, configurable }} = Object.getOwnPropertyDescriptor({owner}, 'locks');
            [navigator.userAgent, navigator.locks, navigator.locks === navigator.locks, get.name, set, enumerable, configurable].join()"));
        assert_eq!(told, "host/1.0,[object LockManager],true,get locks,,true,true");
        eval::<()>(&context, "follow('asked', navigator.locks.request('db', () => 'granted'));");
        run(&context).unwrap();
        assert_eq!(log(&context), "asked: granted");
    }
}

#[test]
fn a_navigator_is_made_where_there_is_none() {
    let told: String = alone().eval("
        const { get, set, enumerable, configurable } = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
        [navigator, navigator === navigator, get.name, set, enumerable, configurable, typeof Navigator].join()");
    assert_eq!(told, "[object Navigator],true,get navigator,,true,true,function");
}

#[test]
fn signals_time_out_where_the_host_has_timers() {
    assert_eq!(alone().eval::<String>("typeof AbortSignal.timeout"), "undefined");
    let timers = "globalThis.timers = []; globalThis.setTimeout = (callback, time) => timers.push({ callback, time });";
    let (context, _runtime) = after(timers, |_| ());
    eval::<()>(&context, "
        navigator.locks.request('db', () => new Promise(() => {}));
        const signal = AbortSignal.timeout(1500);
        follow('late', navigator.locks.request('db', { signal }, () => {}).catch(({ name }) => name));
        note(timers[0].time);
        timers[0].callback();");
    run(&context).unwrap();
    assert_eq!(log(&context), "1500, late: TimeoutError");
}

/// A signal as runtimes on rquickjs define it: a class in Rust that calls its listeners while the
/// signal aborts.
#[derive(JsLifetime, Trace)]
#[rquickjs::class]
struct AbortSignal<'js> {
    reason: Option<Value<'js>>,
    listeners: Vec<Function<'js>>,
}

#[rquickjs::methods(rename_all = "camelCase")]
impl<'js> AbortSignal<'js> {
    #[qjs(constructor)]
    fn new() -> Self {
        Self { reason: None, listeners: Vec::new() }
    }

    #[qjs(get)]
    fn aborted(&self) -> bool {
        self.reason.is_some()
    }

    #[qjs(get)]
    fn reason(&self) -> Option<Value<'js>> {
        self.reason.clone()
    }

    fn add_event_listener(&mut self, _type: String, listener: Function<'js>) {
        self.listeners.push(listener);
    }

    fn remove_event_listener(&mut self, _type: String, listener: Function<'js>) {
        self.listeners.retain(|other| *other != listener);
    }

    fn abort(this: This<Class<'js, Self>>, reason: Value<'js>) -> Result<()> {
        this.borrow_mut().reason = Some(reason);
        let listeners = this.borrow().listeners.clone();
        listeners.iter().try_for_each(|listener| listener.call(()))
    }

    #[qjs(get)]
    fn count(&self) -> usize {
        self.listeners.len()
    }
}

#[test]
fn signals_of_the_host_abort_requests() {
    let (context, _runtime) = after("", |ctx| {
        Class::<AbortSignal<'_>>::define(&ctx.globals()).unwrap();
    });
    eval::<()>(&context, "
        navigator.locks.request('db', (lock) => new Promise((resolve) => { globalThis.release = resolve; }));
        globalThis.signal = new AbortSignal();
        globalThis.aborted = new AbortSignal();
        aborted.abort('early');
        follow('waits', navigator.locks.request('db', { signal }, () => 'granted'));
        follow('aborted', navigator.locks.request('db', { signal: aborted }, () => {}));
        follow('none', navigator.locks.request('db', { signal: {} }, () => {}).catch(({ message }) => message));
        note(`listeners: ${signal.count}`);
        signal.abort('mine');");
    run(&context).unwrap();
    let refused = "the option signal of request() is not an AbortSignal";
    assert_eq!(
        log(&context),
        format!("listeners: 1, aborted failed: early, waits failed: mine, none: {refused}")
    );
    eval::<()>(&context, "
        release();
        globalThis.signal = new AbortSignal();
        follow('runs', navigator.locks.request('db', { signal }, () => { signal.abort('late'); return signal.count; }));");
    run(&context).unwrap();
    assert_eq!(log(&context), "runs: 0");
}

#[test]
fn a_host_sees_to_several_agents_of_a_context() {
    let user_agent = UserAgent::new();
    let program = common::program(user_agent.lock_manager("app"));
    program.context.with(|ctx| {
        let other: Object<'_> = Locks::open(&ctx, user_agent.lock_manager("app")).unwrap().object();
        ctx.globals().set("other", other).unwrap();
        assert_eq!(Locks::all(&ctx).count(), 2);
    });
    let told = program.told("
        follow('own', navigator.locks.request('db', async () => { await null; return 1; }));
        follow('other', other.request('db', () => 2));
        follow('agents', navigator.locks.query().then(({ held, pending }) => held[0].clientId !== pending[0].clientId));");
    assert_eq!(told, "own: 1, other: 2, agents: true");
    program.context.with(|ctx| {
        Locks::of(&ctx).unwrap().end();
        assert_eq!(Locks::all(&ctx).count(), 1);
    });
    assert_eq!(program.told("follow('other', other.request('db', () => 3));"), "other: 3");
}

#[test]
fn a_context_that_is_not_fully_active_asks_in_vain_and_keeps_what_it_has() {
    let program = alone();
    let set = |is_active| {
        program.context.with(|ctx| Locks::of(&ctx).unwrap().set_fully_active(is_active));
    };
    program.eval::<()>("
        follow('held', navigator.locks.request('db', () => new Promise((resolve) => { globalThis.release = resolve; })));
        follow('waits', navigator.locks.request('db', () => 'granted'));");
    program.step();
    set(false);
    let told = program.told(
        "
        follow('new', navigator.locks.request('other', () => {}).catch(({ name }) => name));
        follow('query', navigator.locks.query().catch(({ name }) => name));
        release('released');",
    );
    assert_eq!(
        told,
        "new: InvalidStateError, query: InvalidStateError, held: released, waits: granted"
    );
    set(true);
    assert_eq!(program.told("follow('new', navigator.locks.request('other', () => 1));"), "new: 1");
}
