//! The functions that a script gets.

use std::ptr;

use napi_sys::{napi_callback_info, napi_env, napi_value};
use navlock::UserAgent;
use navlock_js::illegal_invocation;

use crate::{
    crossings, engine,
    host::Host,
    js::{Env, Failure, Local},
    value::Value,
};

/// Gives a new instance its functions.
///
/// # Safety
///
/// `env` and `exports` are those of the call that loads the addon.
pub(crate) unsafe fn export(env: napi_env, exports: napi_value) -> Result<(), Failure> {
    let host: &'static Host = Box::leak(Box::default());
    // SAFETY: promised by the caller, for the time of this call.
    let env = unsafe { Env::new(env, &host.counts) };
    let exports = Local(exports);
    let data = ptr::from_ref(host).cast_mut();
    env.define(exports, c"open", Some(open), data)?;
    env.define(exports, c"request", Some(request), data)?;
    env.define(exports, c"query", Some(query), data)?;
    env.define(exports, c"illegalInvocation", Some(illegal), data)?;
    env.define(exports, c"runTask", Some(run_task), data)?;
    env.define(exports, c"isDue", Some(is_due), data)?;
    env.define(exports, c"settle", Some(settle), data)?;
    env.define(exports, c"abort", Some(abort), data)?;
    env.define(exports, c"startCounting", Some(start_counting), data)?;
    env.define(exports, c"stopCounting", Some(stop_counting), data)?;
    env.define(exports, c"nothing", Some(nothing), data)?;
    env.define(exports, c"cost", Some(cost), data)
}

/// Defines a function of Node-API by its arguments and its work: what the work gives is returned, what it
/// fails with is thrown.
macro_rules! function {
    ($(#[$meta:meta])* $name:ident |$env:ident, $host:ident, $given:ident, $info:ident| $work:expr) => {
        $(#[$meta])*
        unsafe extern "C" fn $name(raw: napi_env, $info: napi_callback_info) -> napi_value {
            // SAFETY: `export` made all functions with a host, whose memory is never given back, and the
            // runtime calls us with a live environment, on its thread.
            let called = unsafe { enter(raw, $info) };
            let work = |($env, $host, given): (Env, &'static Host, Given)| {
                let $given: &[Local] = given.as_slice();
                $work
            };
            match called.and_then(work) {
                Ok(Local(value)) => value,
                Err(failure) => {
                    failure.throw(raw);
                    ptr::null_mut()
                }
            }
        }
    };
}

/// What makes a function return `undefined`.
const NOTHING: Local = Local(ptr::null_mut());

/// The arguments of a call.
struct Given {
    all: [Local; 4],
    count: usize,
}

impl Given {
    fn as_slice(&self) -> &[Local] {
        &self.all[..self.count.min(self.all.len())]
    }
}

/// # Safety
///
/// `env` and `info` are those of a call that goes on, of a function that has a host.
unsafe fn enter(
    env: napi_env,
    info: napi_callback_info,
) -> Result<(Env, &'static Host, Given), Failure> {
    // SAFETY: promised by the caller.
    unsafe { Env::enter(env, info, |host: &'static Host| &host.counts) }
        .map(|(env, host, all, count)| (env, host, Given { all, count }))
}

function! {
    /// `(bucket: string, isPrivate: boolean, hooks: object): Uint32Array`: how many tasks are to be queued
    open |env, host, given, _info| {
        let [bucket, is_private, hooks, ..] = given else { return Err(missing()) };
        let bucket = env.units(*bucket)?.unwrap_or_default();
        let bucket = String::from_utf16_lossy(&bucket);
        let user_agent = if env.to_bool(*is_private)? { UserAgent::new() } else { navlock::in_process() };
        host.open(env, user_agent.lock_manager(&bucket), *hooks)
    }
}

function! {
    /// `(...arguments): Promise`
    request |env, host, given, _info| {
        host.enter(env, |realm, engine| {
            let call = engine.call;
            let count = given.len().min(3);
            let mut arguments = [const { Value::undefined() }; 3];
            for (index, (place, given)) in arguments.iter_mut().zip(given).enumerate() {
                let value = Value::local(*given, call);
                // The callback is what a request keeps of them.
                *place = if index > 0 && index + 1 == count { value.keep(env, call)? } else { value };
            }
            let promise = realm.request(engine, &arguments[..count])?;
            promise.handle(env, call)
        })
    }
}

function! {
    /// `(): Promise`
    query |env, host, _given, _info| {
        host.enter(env, |realm, engine| {
            realm.query(engine)?.handle(env, engine.call)
        })
    }
}

function! {
    /// `(isQuery: boolean): Promise`
    illegal |env, host, given, _info| {
        let [is_query, ..] = given else { return Err(missing()) };
        let function = if env.to_bool(*is_query)? { "query" } else { "request" };
        host.enter(env, |_, engine| {
            illegal_invocation(engine, function)?.handle(env, engine.call)
        })
    }
}

function! {
    /// `(): void`
    run_task |env, host, _given, _info| {
        host.run_task(env)?;
        Ok(NOTHING)
    }
}

function! {
    /// `(): boolean`
    is_due |env, host, _given, _info| env.bool(host.is_due())
}

function! {
    /// `(index: number, serial: number, failed: boolean, value: any): void`
    settle |env, host, given, _info| {
        let [index, serial, failed, value] = given else { return Err(missing()) };
        let key = engine::key(env.to_u32(*index)?, env.to_u32(*serial)?);
        let failed = env.to_bool(*failed)?;
        host.enter(env, |realm, engine| {
            let value = Value::local(*value, engine.call);
            realm.settle(engine, key, if failed { Err(value) } else { Ok(value) })
        })?;
        Ok(NOTHING)
    }
}

function! {
    /// `(index: number, serial: number, reason: any): void`
    abort |env, host, given, _info| {
        let [index, serial, reason, ..] = given else { return Err(missing()) };
        let key = engine::key(env.to_u32(*index)?, env.to_u32(*serial)?);
        host.enter(env, |realm, engine| {
            let reason = Value::local(*reason, engine.call);
            realm.abort(engine, key, reason)
        })?;
        Ok(NOTHING)
    }
}

function! {
    /// `(): void`
    start_counting |_env, host, _given, _info| {
        host.counts.start();
        Ok(NOTHING)
    }
}

function! {
    /// `(): string`: how often each function of Node-API was called since, a line each
    stop_counting |env, host, _given, _info| env.string(&host.counts.stop())
}

function! {
    /// `(): void`: what it costs to be called
    nothing |_env, _host, _given, _info| Ok(NOTHING)
}

function! {
    /// `(what: string, times: number, value: any): number`: nanoseconds that it takes each time
    cost |env, _host, given, info| {
        let [what, times, value, ..] = given else { return Err(missing()) };
        let what = String::from_utf16_lossy(&env.units(*what)?.unwrap_or_default());
        env.double(crossings::cost(env, info, &what, env.to_u32(*times)?, *value)?)
    }
}

fn missing() -> Failure {
    Failure::Own("an argument is missing".to_owned())
}
