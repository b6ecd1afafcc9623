//! What each crossing costs.

use std::{hint::black_box, time::Instant};

use napi_sys::napi_callback_info;

use crate::js::{Env, Failure, Local};

/// How many nanoseconds one call of this function of Node-API takes, as it is used for a request.
/// What goes with it by need (a promise's settling, a reference's end) is in it.
///
/// # Errors
///
/// If there is no such thing, or `value` is not what it needs.
pub(crate) fn cost(
    env: Env,
    info: napi_callback_info,
    what: &str,
    times: u32,
    value: Local,
) -> Result<f64, Failure> {
    let again = |act: &dyn Fn() -> Result<(), Failure>| {
        let began = Instant::now();
        for _ in 0..times {
            black_box(act())?;
        }
        let nanoseconds = began.elapsed().as_nanos();
        #[expect(clippy::cast_precision_loss, reason = "a measurement of milliseconds")]
        Ok(nanoseconds as f64 / f64::from(times))
    };
    match what {
        "napi_get_cb_info" => again(&|| env.look_at_arguments(info)),
        "napi_typeof" => again(&|| env.kind(value).map(drop)),
        "napi_get_undefined" => again(&|| env.undefined().map(drop)),
        "napi_get_boolean" => again(&|| env.bool(true).map(drop)),
        "napi_get_value_bool" => again(&|| env.to_bool(value).map(drop)),
        "napi_get_value_uint32" => again(&|| env.to_u32(value).map(drop)),
        "napi_create_uint32" => again(&|| env.u32(7).map(drop)),
        "napi_get_value_string_utf16" => again(&|| env.units(value).map(drop)),
        "napi_create_string_utf8" => again(&|| env.string("db").map(drop)),
        "napi_get_named_property" => again(&|| env.get(value, c"ifAvailable").map(drop)),
        "napi_call_function" => again(&|| env.call(value, []).map(drop)),
        "napi_create_promise" => again(&|| {
            let (_, deferred) = env.promise()?;
            env.resolve(deferred, value)
        }),
        "napi_create_reference" => again(&|| env.forget(env.reference(value)?)),
        "napi_get_reference_value" => {
            let reference = env.reference(value)?;
            let cost = again(&|| env.referenced(reference).map(drop))?;
            env.forget(reference)?;
            Ok(cost)
        }
        other => Err(Failure::Own(format!("nobody asks what {other} costs"))),
    }
}
