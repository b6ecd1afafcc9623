//! What the scripts of `navlock-js` define of the DOM, and what they tell about signals.

use std::slice;

use boa_engine::{
    Context, JsNativeError, JsObject, JsResult, JsString, JsValue, NativeFunction, Source,
    job::{NativeJob, TimeoutJob},
    js_string,
    object::{FunctionObjectBuilder, ObjectInitializer, builtins::JsFunction},
    property::Attribute,
};

/// The hooks of the script `DOM` in one realm.
pub(crate) struct Dom {
    is_signal: JsFunction,
    aborted: JsFunction,
    reason: JsFunction,
    add: JsFunction,
    remove: JsFunction,
    exception: JsFunction,
}

impl Dom {
    /// Defines in the current realm what its global object lacks.
    pub(crate) fn define(context: &mut Context) -> JsResult<Self> {
        let define = context.eval(Source::from_bytes(navlock_js::DOM))?;
        let define = function(&define, "the script DOM")?;
        let global = context.global_object();
        let report = global.get(js_string!("reportError"), context)?;
        let set_timeout = set_timeout(context)?;
        let mut host = ObjectInitializer::new(context);
        host.property(js_string!("setTimeout"), set_timeout, Attribute::all());
        if report.is_callable() {
            host.property(js_string!("report"), report, Attribute::all());
        }
        let host = host.build();
        let hooks = define.call(&JsValue::undefined(), &[global.into(), host.into()], context)?;
        let hooks = hooks.to_object(context)?;
        let mut hook = |name: &str| {
            let hook = hooks.get(JsString::from(name), context)?;
            function(&hook, name)
        };
        Ok(Self {
            is_signal: hook("isSignal")?,
            aborted: hook("aborted")?,
            reason: hook("reason")?,
            add: hook("add")?,
            remove: hook("remove")?,
            exception: hook("DOMException")?,
        })
    }

    pub(crate) fn is_signal(&self, value: &JsValue, context: &mut Context) -> JsResult<bool> {
        Ok(ask(&self.is_signal, slice::from_ref(value), context)?.to_boolean())
    }

    /// The reason with which the signal has aborted, if it has.
    pub(crate) fn abort_reason(
        &self,
        signal: &JsValue,
        context: &mut Context,
    ) -> JsResult<Option<JsValue>> {
        if !ask(&self.aborted, slice::from_ref(signal), context)?.to_boolean() {
            return Ok(None);
        }
        ask(&self.reason, slice::from_ref(signal), context).map(Some)
    }

    /// Adds an abort algorithm. Returns the handle by which `remove` finds it.
    pub(crate) fn add(
        &self,
        signal: &JsValue,
        algorithm: JsFunction,
        context: &mut Context,
    ) -> JsResult<JsValue> {
        ask(&self.add, &[signal.clone(), algorithm.into()], context)
    }

    pub(crate) fn remove(
        &self,
        signal: &JsValue,
        handle: &JsValue,
        context: &mut Context,
    ) -> JsResult<()> {
        ask(&self.remove, &[signal.clone(), handle.clone()], context).map(drop)
    }

    pub(crate) fn exception(
        &self,
        name: &str,
        message: &str,
        context: &mut Context,
    ) -> JsResult<JsValue> {
        let arguments = [JsString::from(message).into(), JsString::from(name).into()];
        self.exception.construct(&arguments, None, context).map(JsValue::from)
    }
}

fn ask(hook: &JsFunction, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    hook.call(&JsValue::undefined(), arguments, context)
}

/// The function with which `AbortSignal.timeout` counts: the realm's own `setTimeout`, or Boa's timers if it
/// has none.
fn set_timeout(context: &mut Context) -> JsResult<JsFunction> {
    let global = context.global_object();
    let own = global.get(js_string!("setTimeout"), context)?;
    if let Some(own) = own.as_object().and_then(JsFunction::from_object) {
        return Ok(own);
    }
    let timer = NativeFunction::from_fn_ptr(|_, arguments, context| {
        let [callback, milliseconds, ..] = arguments else { return Ok(JsValue::undefined()) };
        let callback = function(callback, "the callback of a timer")?;
        let job = NativeJob::with_realm(
            move |context| callback.call(&JsValue::undefined(), &[], context),
            context.realm().clone(),
        );
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the script gives integers from 0 to 2^53 - 1"
        )]
        let milliseconds = milliseconds.to_number(context)? as u64;
        context.enqueue_job(TimeoutJob::new(job, milliseconds).into());
        Ok(JsValue::undefined())
    });
    Ok(FunctionObjectBuilder::new(context.realm(), timer).length(2).build())
}

/// The language's own `Promise.prototype.then`.
pub(crate) fn own_then(context: &mut Context) -> JsResult<JsObject> {
    let prototype = context.intrinsics().constructors().promise().prototype();
    let then = prototype.get(js_string!("then"), context)?;
    function(&then, "Promise.prototype.then").map(JsObject::from)
}

fn function(value: &JsValue, what: &str) -> JsResult<JsFunction> {
    value
        .as_object()
        .and_then(JsFunction::from_object)
        .ok_or_else(|| JsNativeError::typ().with_message(format!("{what} is no function")).into())
}
