//! What the browser has, bound by hand: `navigator.locks` as the specification declares it, and what it
//! needs. (In web-sys the interfaces of Web Locks are behind a `cfg` that each program would have to set.)
//!
//! Spec: <https://w3c.github.io/web-locks/#api>

use js_sys::{Array, JsString};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// `Navigator` or `WorkerNavigator`.
    type Navigator;

    #[wasm_bindgen(thread_local_v2, js_name = navigator)]
    static NAVIGATOR: Option<Navigator>;

    #[wasm_bindgen(method, getter)]
    fn locks(this: &Navigator) -> Option<LockManager>;

    /// `LockManager`.
    #[derive(Clone, Debug)]
    pub(crate) type LockManager;

    /// `request(name, options, callback)`.
    #[wasm_bindgen(method, catch)]
    pub(crate) fn request(
        this: &LockManager,
        name: &JsString,
        options: &LockOptions,
        callback: &Function,
    ) -> Result<Promise, JsValue>;

    /// `query()`.
    #[wasm_bindgen(method, catch)]
    pub(crate) fn query(this: &LockManager) -> Result<Promise, JsValue>;

    /// `LockOptions`.
    pub(crate) type LockOptions;

    #[wasm_bindgen(js_name = Object)]
    type Empty;

    #[wasm_bindgen(constructor, js_class = "Object")]
    fn new() -> Empty;

    #[wasm_bindgen(method, setter)]
    pub(crate) fn set_mode(this: &LockOptions, mode: &str);

    #[wasm_bindgen(method, setter, js_name = ifAvailable)]
    pub(crate) fn set_if_available(this: &LockOptions, if_available: bool);

    #[wasm_bindgen(method, setter)]
    pub(crate) fn set_steal(this: &LockOptions, steal: bool);

    #[wasm_bindgen(method, setter)]
    pub(crate) fn set_signal(this: &LockOptions, signal: &JsValue);

    /// `LockManagerSnapshot`.
    #[derive(Debug)]
    pub(crate) type Snapshot;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn held(this: &Snapshot) -> Array;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn pending(this: &Snapshot) -> Array;

    /// `LockInfo`.
    pub(crate) type LockInfo;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn name(this: &LockInfo) -> JsString;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn mode(this: &LockInfo) -> String;

    #[wasm_bindgen(method, getter, js_name = clientId)]
    pub(crate) fn client_id(this: &LockInfo) -> String;

    /// `AbortController`.
    #[derive(Debug)]
    pub(crate) type AbortController;

    #[wasm_bindgen(constructor)]
    pub(crate) fn new() -> AbortController;

    #[wasm_bindgen(method, getter)]
    pub(crate) fn signal(this: &AbortController) -> JsValue;

    #[wasm_bindgen(method)]
    pub(crate) fn abort(this: &AbortController);

    /// A promise, as `request` and `query` return it and a callback does.
    pub(crate) type Promise;

    #[wasm_bindgen(method)]
    pub(crate) fn then(this: &Promise, fulfilled: &Function, rejected: &Function) -> Promise;

    #[wasm_bindgen(constructor)]
    fn new(executor: &mut dyn FnMut(Function)) -> Promise;

    /// A function.
    #[derive(Debug)]
    pub(crate) type Function;

    #[wasm_bindgen(method, js_name = bind)]
    fn bind_number(this: &Function, receiver: &JsValue, number: f64) -> Function;

    #[wasm_bindgen(method, catch, js_name = call)]
    fn call_alone(this: &Function, receiver: &JsValue) -> Result<JsValue, JsValue>;

    /// What a promise is rejected with: a `DOMException`, or whatever a page's own code throws.
    type Thrown;

    #[wasm_bindgen(method, getter, structural)]
    fn name(this: &Thrown) -> JsValue;

    #[wasm_bindgen(method, getter, structural)]
    fn message(this: &Thrown) -> JsValue;
}

/// `navigator.locks`, where there is one.
pub(crate) fn lock_manager() -> Option<LockManager> {
    NAVIGATOR.with(|navigator| navigator.as_ref()?.locks())
}

impl LockOptions {
    /// Without members: all are as the specification has them by default.
    pub(crate) fn empty() -> Self {
        Empty::new().unchecked_into()
    }
}

impl Promise {
    /// A promise that is pending, and the function that fulfils it.
    pub(crate) fn pending() -> (Self, Option<Function>) {
        let mut resolve = None;
        // The executor is called at once, and once.
        let promise = Self::new(&mut |function| resolve = Some(function));
        (promise, resolve)
    }
}

impl Function {
    /// A function of JavaScript that calls this one, for as long as the page lives.
    pub(crate) fn forever(closure: Closure<dyn Fn(f64, JsValue) -> JsValue>) -> Self {
        closure.into_js_value().unchecked_into()
    }

    /// The same function with its first argument given.
    pub(crate) fn with(&self, number: f64) -> Self {
        self.bind_number(&JsValue::UNDEFINED, number)
    }

    /// Calls it without arguments. What a promise is resolved by never throws.
    pub(crate) fn call(&self) {
        let _ = self.call_alone(&JsValue::UNDEFINED);
    }
}

/// The name and the message of what was thrown, as far as it has them.
pub(crate) fn thrown(reason: &JsValue) -> (String, String) {
    if !reason.is_object() {
        return (String::new(), format!("{reason:?}"));
    }
    let thrown: &Thrown = reason.unchecked_ref();
    (
        thrown.name().as_string().unwrap_or_default(),
        thrown.message().as_string().unwrap_or_default(),
    )
}

/// A string of JavaScript with these UTF-16 code units.
pub(crate) fn js_string(units: &[u16]) -> JsString {
    /// How many arguments a function is called with at once: browsers allow some more.
    const AT_ONCE: usize = 8192;

    // FAST: but for lone surrogates, strings are the same on both sides.
    if let Ok(text) = String::from_utf16(units) {
        return text.into();
    }
    let pieces = units.chunks(AT_ONCE).map(JsString::from_char_code);
    pieces.reduce(|before, piece| before.concat(&piece)).unwrap_or_else(|| "".into())
}

/// The UTF-16 code units of a string of JavaScript.
pub(crate) fn units(string: &JsString) -> Vec<u16> {
    // FAST: each unit that is asked for by itself is a call. What stands for a lone surrogate in
    // there may also
    //       be a character of the string's own.
    match string.as_string() {
        Some(text) if !text.contains(char::REPLACEMENT_CHARACTER) => text.encode_utf16().collect(),
        _ => string.iter().collect(),
    }
}
