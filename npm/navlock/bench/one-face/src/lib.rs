//! Section 3 of the specification for Node, Deno and Bun by `navlock-js`: a measurement.
//!
//! The package has that section in JavaScript, above an addon that only numbers and names cross to. Here
//! it is the Rust half that the engines embedded in Rust use, with an [`Engine`] of Node-API. Beside the
//! Rust half stands as little JavaScript as there can be (`../face.cjs`): the classes, what settles a
//! promise that a callback has returned, abort algorithms, and the tasks of the event loop.
//! `cargo xtask bench faces` builds it and measures both.
//!
//! An instance of the addon is one agent, of this process. Nothing here is published.
//!
//! # Safety
//!
//! All unsafe code is in `js`, `functions` and `host`, and rests on these facts:
//!
//! - Node-API calls the functions of an instance on its thread, one inside the other at most.
//! - A handle is used in the call into us in which it was made, and in no other: it knows which that was.
//! - What is kept beyond that is a reference, and all of them are given back when the environment is
//!   cleaned up, on its thread. An instance's memory is emptied then, and never given back.
//!
//! [`Engine`]: navlock_js::Engine

mod crossings;
mod engine;
mod functions;
mod host;
mod js;
mod value;

use std::ptr;

use napi_sys::{napi_env, napi_value};

/// As the package's addon.
const NODE_API_VERSION: i32 = 6;

/// Called by the runtime for each instance.
///
/// # Safety
///
/// To be called by a Node-API runtime, on the thread of the environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napi_register_module_v1(env: napi_env, exports: napi_value) -> napi_value {
    // SAFETY: `env` and `exports` are the runtime's, which calls us for nothing else.
    match unsafe { functions::export(env, exports) } {
        Ok(()) => exports,
        Err(failure) => {
            failure.throw(env);
            ptr::null_mut()
        }
    }
}

/// Called by the runtime before the addon is used.
#[unsafe(no_mangle)]
pub extern "C" fn node_api_module_get_api_version_v1() -> i32 {
    NODE_API_VERSION
}
