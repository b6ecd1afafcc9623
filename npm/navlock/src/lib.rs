//! The addon of the npm package: navlock's locks as plain functions for a JavaScript realm.
//!
//! Everything that a script sees is made in JavaScript (`../js`): conversions, promises, callbacks,
//! interface objects. The functions of the addon take and return numbers and strings, and none of
//! them waits, because a call across Node-API costs more than the work that it asks for. For the
//! same reason the addon uses `napi-sys` without the layer above it.
//!
//! A *realm* (main thread, worker) is one instance of the addon. A realm asks by `functions`, and
//! gets an id and a status at once. Later news goes into the `inbox` of the realm, which is woken
//! once for each batch of news. All realms of a process share the user agents of `reach`.
//!
//! # Safety
//!
//! All unsafe code is in `js`, `functions`, `inbox` and `realm`, and rests on three facts:
//!
//! - Node-API calls the functions of a realm on the thread of the realm, one at a time.
//! - What a realm shares with other threads is its inbox, which stops using Node-API when the
//!   realm's environment is cleaned up.
//! - At the same time the realm drops all that it has, but its own memory is never given back: some
//!   runtimes call a function even later, and the function then finds that the realm has ended.

mod functions;
mod inbox;
mod js;
mod looking;
mod managers;
mod protocol;
mod reach;
mod realm;
mod slots;

use std::ptr;

use napi_sys::{napi_env, napi_value};

/// Which version of Node-API this is made for: that of Node 14, for `BigInt`.
const NODE_API_VERSION: i32 = 6;

/// Called by the runtime, once for each realm that loads the addon.
///
/// # Safety
///
/// To be called by a Node-API runtime, on the realm's thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napi_register_module_v1(env: napi_env, exports: napi_value) -> napi_value {
    // The runtime unloads an addon with the last worker that has it. The threads that keep
    // connections may still run code of the addon then. If this call fails, nothing else would help.
    let _ = navlock_platform::library::keep_loaded();
    #[cfg(looks_up_node_api)]
    look_up_node_api();
    // SAFETY: `env` and `exports` are the runtime's, which calls us for nothing else.
    match unsafe { functions::export(env, exports) } {
        Ok(()) => exports,
        Err(error) => {
            error.throw(env);
            ptr::null_mut()
        }
    }
}

/// Finds the functions of Node-API in this program, once for all realms.
#[cfg(looks_up_node_api)]
fn look_up_node_api() {
    static LOOKED_UP: std::sync::Once = std::sync::Once::new();
    LOOKED_UP.call_once(|| {
        // SAFETY: nothing of Node-API is called before this has returned, on any thread.
        unsafe { napi_sys::setup() };
    });
}

/// Called by the runtime before the addon is used.
#[unsafe(no_mangle)]
pub extern "C" fn node_api_module_get_api_version_v1() -> i32 {
    NODE_API_VERSION
}
