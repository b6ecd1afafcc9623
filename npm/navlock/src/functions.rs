//! The functions that a realm gets.

use std::{collections::HashMap, ffi::c_void};

use napi_sys::{napi_callback_info, napi_env, napi_value};
use navlock::{Inspected, LockInfo, LockManagerSnapshot, Mode, ResourceName};

use crate::{
    js::{Env, Failure, ok},
    protocol::{self, flag},
    realm::Realm,
};

/// Makes a realm, and defines its functions and the numbers that they use as properties of `exports`.
///
/// # Safety
///
/// `env` and `exports` are those of the call that loads the addon.
pub(crate) unsafe fn export(env: napi_env, exports: napi_value) -> Result<(), Failure> {
    // SAFETY: promised by the caller, for the time of this call.
    let js = unsafe { Env::new(env) };
    let realm: *mut Realm = Box::into_raw(Box::new(Realm::new()));
    for (name, number) in protocol::NUMBERS {
        js.define_number(exports, name, number)?;
    }
    js.define(exports, c"listen", Some(listen), realm)?;
    js.define(exports, c"wakeLoop", Some(wake_loop), realm)?;
    js.define(exports, c"keepAlive", Some(keep_alive), realm)?;
    js.define(exports, c"openUserAgent", Some(open_user_agent), realm)?;
    js.define(exports, c"closeUserAgent", Some(close_user_agent), realm)?;
    js.define(exports, c"openManager", Some(open_manager), realm)?;
    js.define(exports, c"closeManager", Some(close_manager), realm)?;
    js.define(exports, c"clientId", Some(client_id), realm)?;
    js.define(exports, c"bucket", Some(bucket), realm)?;
    js.define(exports, c"hasLease", Some(has_lease), realm)?;
    js.define(exports, c"request", Some(request), realm)?;
    js.define(exports, c"requestFor", Some(request_for), realm)?;
    js.define(exports, c"putInside", Some(put_inside), realm)?;
    js.define(exports, c"deadlock", Some(deadlock), realm)?;
    js.define(exports, c"query", Some(query), realm)?;
    js.define(exports, c"queryHolder", Some(query_holder), realm)?;
    js.define(exports, c"look", Some(look), realm)?;
    js.define(exports, c"lookOn", Some(look_on), realm)?;
    js.define(exports, c"looked", Some(looked), realm)?;
    js.define(exports, c"next", Some(next), realm)?;
    js.define(exports, c"release", Some(release), realm)?;
    js.define(exports, c"token", Some(token), realm)?;
    js.define(exports, c"failure", Some(failure), realm)?;
    js.define(exports, c"snapshot", Some(snapshot), realm)?;
    js.define(exports, c"holder", Some(holder), realm)
}

/// Defines a function of Node-API by its arguments and its body. The value of the body is returned,
/// and its error is thrown.
macro_rules! function {
    ($(#[$meta:meta])* $name:ident[$($argument:ident),*] |$js:ident, $realm:ident| $work:expr) => {
        $(#[$meta])*
        unsafe extern "C" fn $name(env: napi_env, info: napi_callback_info) -> napi_value {
            // SAFETY: the runtime calls us with a live environment, on its thread.
            let $js = unsafe { Env::new(env) };
            let work = || {
                let ([$($argument),*], realm) = $js.arguments::<_, Realm>(info)?;
                // SAFETY: `export` made all functions with a realm, which is never given back.
                let $realm: &Realm = unsafe { &*realm };
                $work
            };
            work().unwrap_or_else(|error: Failure| {
                error.throw(env);
                std::ptr::null_mut()
            })
        }
    };
}

function! {
    /// `(wake: () => void): void`
    listen[wake] |js, realm| {
        realm.listen(js, wake)?;
        let realm = std::ptr::from_ref(realm).cast_mut().cast();
        // Hooks run last to first. This one is added after the threadsafe function, so that the
        // realm has ended, and nobody calls that function any more, before the runtime takes the
        // function back.
        //
        // SAFETY: the hook gets a realm that is never given back.
        let status = unsafe { napi_sys::napi_add_env_cleanup_hook(js.raw(), Some(end), realm) };
        ok("napi_add_env_cleanup_hook", status)?;
        let (hint, reference) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the finalizer also gets a realm that is never given back.
        let status = unsafe {
            napi_sys::napi_add_finalizer(js.raw(), wake, realm, Some(collected), hint, reference)
        };
        ok("napi_add_finalizer", status)?;
        js.undefined()
    }
}

/// Ends a realm, on its thread, when nothing of it runs any more.
unsafe extern "C" fn end(realm: *mut c_void) {
    // SAFETY: the hook was given a realm.
    unsafe { &*realm.cast::<Realm>() }.end();
}

/// Ends a realm, on its thread, when the function that takes its news was collected.
unsafe extern "C" fn collected(env: napi_env, realm: *mut c_void, _hint: *mut c_void) {
    // SAFETY: the runtime calls us with a live environment, on its thread, and with what it was given.
    let (js, this) = unsafe { (Env::new(env), &*realm.cast::<Realm>()) };
    // Nobody is left who could be told of a failure.
    if let Ok(true) = this.collected(js) {
        // SAFETY: the hook was added with this realm.
        unsafe { napi_sys::napi_remove_env_cleanup_hook(env, Some(end), realm) };
    }
}

function! {
    /// `(): void`
    wake_loop[] |js, realm| {
        realm.wake_loop();
        js.undefined()
    }
}

function! {
    /// `(on: boolean): void`
    keep_alive[on] |js, realm| {
        realm.keep_alive(js, js.to_bool(on)?)?;
        js.undefined()
    }
}

function! {
    /// `(reach: number, isPrivate: boolean, socket: string | null, program: string | null): number`
    open_user_agent[reach, is_private, socket, program] |js, realm| {
        let user_agent = match js.to_u32(reach)? {
            protocol::reach::PROCESS => realm.open_process(js.to_bool(is_private)?)?,
            protocol::reach::MACHINE => {
                realm.open_machine(js.to_string(socket)?, js.to_string(program)?)?
            }
            protocol::reach::SYSTEM => realm.open_system()?,
            other => return Err(Failure::Own(format!("there is no reach {other}"))),
        };
        js.u32(user_agent)
    }
}

function! {
    /// `(userAgent: number, ends: boolean): void`
    close_user_agent[user_agent, ends] |js, realm| {
        realm.close_user_agent(js.to_u32(user_agent)?, js.to_bool(ends)?)?;
        js.undefined()
    }
}

function! {
    /// `(userAgent: number, bucket: string): number`
    open_manager[user_agent, bucket] |js, realm| {
        let bucket = js.to_string(bucket)?.unwrap_or_default();
        js.u32(realm.open_manager(js.to_u32(user_agent)?, &bucket)?)
    }
}

function! {
    /// `(manager: number): void`
    close_manager[manager] |js, realm| {
        realm.close_manager(js.to_u32(manager)?)?;
        js.undefined()
    }
}

function! {
    /// `(manager: number): string`
    bucket[manager] |js, realm| js.string(&realm.bucket(js.to_u32(manager)?)?)
}

function! {
    /// `(manager: number): 0 | 1`
    ///
    /// Whether its locks have leases and end by themselves, as on etcd.
    has_lease[manager] |js, realm| js.u32(realm.has_lease(js.to_u32(manager)?)?.into())
}

function! {
    /// `(manager: number): string`
    client_id[manager] |js, realm| js.string(&realm.client_id(js.to_u32(manager)?)?)
}

function! {
    /// `(manager: number, name: string, flags: number): answer`
    request[manager, name, flags] |js, realm| {
        let name = to_name(js, name)?;
        js.u32(realm.request(js.to_u32(manager)?, name, js.to_u32(flags)?, None)?)
    }
}

function! {
    /// `(manager: number, name: string, flags: number, why: string): answer`
    request_for[manager, name, flags, why] |js, realm| {
        let (name, why) = (to_name(js, name)?, js.to_string(why)?);
        js.u32(realm.request(js.to_u32(manager)?, name, js.to_u32(flags)?, why)?)
    }
}

function! {
    /// `(id: number, holder: number): void`
    put_inside[id, holder] |js, realm| {
        realm.put_inside(js.to_u32(id)?, js.to_u32(holder)?)?;
        js.undefined()
    }
}

function! {
    /// `(id: number): string | null`
    ///
    /// The text that says who waits for whom, if a waiting request is known to be part of a deadlock.
    deadlock[id] |js, realm| {
        let id = js.to_u32(id)?;
        realm.read_slots(|slots| Some(js.string_or_null(slots.deadlock(id).as_deref())))
    }
}

function! {
    /// `(manager: number): answer`
    query[manager] |js, realm| js.u32(realm.query(js.to_u32(manager)?)?)
}

function! {
    /// `(manager: number, name: string): answer`
    query_holder[manager, name] |js, realm| {
        let name = to_name(js, name)?;
        js.u32(realm.query_holder(js.to_u32(manager)?, name)?)
    }
}

function! {
    /// `(manager: number, name: string | null, allBuckets: boolean): answer`
    look[manager, name, all_buckets] |js, realm| {
        let manager = js.to_u32(manager)?;
        let name = if js.is_null(name)? { None } else { Some(to_name(js, name)?) };
        js.u32(realm.look_at(manager, name, js.to_bool(all_buckets)?)?)
    }
}

function! {
    /// `(id: number): void`
    ///
    /// Asks for the next news of a look, once the last news was taken.
    look_on[id] |js, realm| {
        let id = js.to_u32(id)?;
        realm.read_slots(|slots| {
            slots.looking(id)?.go_on();
            Some(Ok(()))
        })?;
        js.undefined()
    }
}

function! {
    /// `(id: number): string`
    ///
    /// The news of a look: a list of objects, as JSON.
    looked[id] |js, realm| {
        let id = js.to_u32(id)?;
        let told = realm.read_slots(|slots| Some(Ok(slots.looking(id)?.take())))?;
        js.string(told.as_deref().unwrap_or("[]"))
    }
}

function! {
    /// `(): answer`
    next[] |js, realm| js.u32(realm.next()?)
}

function! {
    /// `(id: number): answer`
    release[id] |js, realm| js.u32(realm.release(js.to_u32(id)?)?)
}

function! {
    /// `(id: number): bigint`
    token[id] |js, realm| {
        let id = js.to_u32(id)?;
        realm.read_slots(|slots| Some(js.bigint(slots.token(id)?)))
    }
}

function! {
    /// `(id: number, into: [domExceptionName: string, message: string, howLost: string | null, stolenBy: string | null]): void`
    failure[id, into] |js, realm| {
        let told = realm.failure(js.to_u32(id)?)?;
        let words = [Some(told.exception), Some(&told.message), told.how_lost, told.stolen_by.as_deref()];
        js.fill(into, words.into_iter().map(|word| js.string_or_null(word)))?;
        js.undefined()
    }
}

function! {
    /// `(id: number, names: string[], clientIds: string[]): Uint32Array | undefined`
    ///
    /// First the held locks, then the pending requests. `names` gets the name of each. The result
    /// begins with the number of held locks. Then it has two numbers for each entry: `SHARED` or 0,
    /// and the index of its client id.
    snapshot[id, names, client_ids] |js, realm| {
        let id = js.to_u32(id)?;
        realm.read_slots(|slots| Some(flat(js, slots.snapshot(id)?, names, client_ids)))
    }
}

function! {
    /// `(id: number, into: [clientId: string, age: number | null, pid: number | null, command: string | null, host: string | null]): void`
    ///
    /// The age is in milliseconds. Writes nothing if nobody holds the name.
    holder[id, into] |js, realm| {
        let id = js.to_u32(id)?;
        realm.read_slots(|slots| {
            let holder = slots.position(id)?.holder.as_ref();
            Some(holder.map_or(Ok(()), |holder| tell_holder(js, holder, into)))
        })?;
        js.undefined()
    }
}

/// Writes what is known of a holder.
fn tell_holder(js: Env, holder: &Inspected, into: napi_value) -> Result<(), Failure> {
    let agent = holder.agent.as_deref();
    let number = |number: Option<u32>| number.map_or_else(|| js.null(), |number| js.u32(number));
    let age = holder.age.map(|age| u32::try_from(age.as_millis()).unwrap_or(u32::MAX));
    let parts = [
        js.string(&holder.lock.client_id.to_string()),
        number(age),
        number(agent.map(|agent| agent.pid)),
        js.string_or_null(agent.map(|agent| agent.command.as_str())),
        js.string_or_null(agent.map(|agent| agent.host.as_str())),
    ];
    js.fill(into, parts.into_iter())
}

/// A snapshot as a few values of JavaScript, from which the JavaScript side makes objects.
///
/// FAST: to make an object with three members through Node-API costs more than everything else of its entry.
fn flat(
    js: Env,
    snapshot: &LockManagerSnapshot,
    into_names: napi_value,
    into_client_ids: napi_value,
) -> Result<napi_value, Failure> {
    let entries = || snapshot.held.iter().chain(&snapshot.pending);
    let count = snapshot.held.len() + snapshot.pending.len();
    let mut clients = HashMap::new();
    let mut client_ids = Vec::new();
    let mut facts = Vec::with_capacity(1 + 2 * count);
    facts.push(u32::try_from(snapshot.held.len()).expect("memory ends before 2^32 locks"));
    for LockInfo { mode, client_id, .. } in entries() {
        let client = *clients.entry(*client_id).or_insert_with(|| {
            client_ids.push(client_id.to_string());
            client_ids.len() - 1
        });
        facts.push(if *mode == Mode::Shared { flag::SHARED } else { 0 });
        facts.push(u32::try_from(client).expect("there are fewer clients than bytes of memory"));
    }
    js.fill(into_names, entries().map(|info| string_of_name(js, &info.name)))?;
    js.fill(into_client_ids, client_ids.iter().map(|client_id| js.string(client_id)))?;
    js.u32_array(&facts)
}

/// The name that a string of JavaScript is, with its lone surrogates.
fn to_name(js: Env, name: napi_value) -> Result<ResourceName, Failure> {
    let name = js.with_units(name, ResourceName::from_utf16)?;
    name.map_err(|error| Failure::Own(error.to_string()))
}

/// The string of JavaScript that a name is, with its lone surrogates.
fn string_of_name(js: Env, name: &ResourceName) -> Result<napi_value, Failure> {
    match name.as_str() {
        Some(name) => js.string(name),
        None => js.string_of_units(&name.utf16().collect::<Vec<_>>()),
    }
}
