//! What section 3 of the specification asks of a JavaScript engine.

use navlock_core::{Mode, ReservedName, ResourceName};

/// A JavaScript engine, as the interfaces of the Web Locks API need it: an adapter implements this for
/// what its engine calls a context.
///
/// Everything happens on the one thread of the engine's realm. What runs a script may call the
/// [`Realm`](crate::Realm) again before it returns.
///
/// # Errors
///
/// A method fails if a script has thrown something. It also fails with an error that no script can catch: the
/// script was interrupted, or a limit of memory or of anything else was reached. [`catch`](Self::catch) tells
/// one from the other.
#[expect(clippy::missing_errors_doc, reason = "said of all of them, above")]
pub trait Engine: Sized {
    /// A value of the language. It is kept alive for as long as it is kept here.
    type Value: Clone;

    /// What settles a promise, once. Dropped, it leaves the promise pending.
    type Deferred;

    /// Why a call into the engine has failed.
    type Error;

    // Values.

    /// `undefined`
    fn undefined(&mut self) -> Self::Value;

    /// `null`
    fn null(&mut self) -> Self::Value;

    /// Whether it is `undefined`.
    fn is_undefined(&mut self, value: &Self::Value) -> bool;

    /// Whether it is `null`.
    fn is_null(&mut self, value: &Self::Value) -> bool;

    /// Whether it is an object; functions are.
    fn is_object(&mut self, value: &Self::Value) -> bool;

    /// Spec: <https://tc39.es/ecma262/#sec-iscallable>
    fn is_callable(&mut self, value: &Self::Value) -> bool;

    /// Spec: <https://tc39.es/ecma262/#sec-toboolean>
    fn to_boolean(&mut self, value: &Self::Value) -> bool;

    /// The code units of the value as a string, lone surrogates included. May run scripts.
    ///
    /// Spec: <https://tc39.es/ecma262/#sec-tostring>
    fn to_utf16(&mut self, value: &Self::Value) -> Result<Vec<u16>, Self::Error>;

    /// The name with [these code units](Self::to_utf16), or an error if that name is reserved. An engine that
    /// has the code units without a copy need not make one.
    fn to_name(
        &mut self,
        value: &Self::Value,
    ) -> Result<Result<ResourceName, ReservedName>, Self::Error> {
        self.to_utf16(value).map(|units| ResourceName::from_utf16(&units))
    }

    /// The value of an object's property. May run scripts.
    ///
    /// Spec: <https://tc39.es/ecma262/#sec-get-o-p>
    fn get(&mut self, object: &Self::Value, key: &'static str) -> Result<Self::Value, Self::Error>;

    /// Calls a function with `undefined` for `this`, and one argument.
    ///
    /// Spec: <https://webidl.spec.whatwg.org/#invoke-a-callback-function>
    fn call(
        &mut self,
        function: &Self::Value,
        argument: Self::Value,
    ) -> Result<Self::Value, Self::Error>;

    // What is made, in the realm of the lock manager.

    /// A string of these code units, lone surrogates included.
    fn string(&mut self, units: &[u16]) -> Result<Self::Value, Self::Error>;

    /// A plain object with these properties, as [`CreateDataProperty`] makes them, in this order.
    ///
    /// [`CreateDataProperty`]: https://tc39.es/ecma262/#sec-createdataproperty
    fn object<const N: usize>(
        &mut self,
        properties: [(&'static str, Self::Value); N],
    ) -> Result<Self::Value, Self::Error>;

    /// An array of these values, as [`CreateArrayFromList`] makes it: setters on prototypes see nothing
    /// of it.
    ///
    /// [`CreateArrayFromList`]: https://tc39.es/ecma262/#sec-createarrayfromlist
    fn array(&mut self, values: Vec<Self::Value>) -> Result<Self::Value, Self::Error>;

    /// An object with the interface `Lock`.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock>
    fn lock(&mut self, name: ResourceName, mode: Mode) -> Result<Self::Value, Self::Error>;

    /// A `TypeError`.
    fn type_error(&mut self, message: &str) -> Result<Self::Value, Self::Error>;

    /// A `DOMException` of this name, such as `"AbortError"`.
    fn dom_exception(
        &mut self,
        name: &'static str,
        message: &str,
    ) -> Result<Self::Value, Self::Error>;

    // What is thrown.

    /// The error that throws this value.
    fn throw(&mut self, value: Self::Value) -> Self::Error;

    /// The value that was thrown.
    ///
    /// # Errors
    ///
    /// The same error, if no script can catch it.
    fn catch(&mut self, error: Self::Error) -> Result<Self::Value, Self::Error>;

    // Promises.

    /// Spec: <https://webidl.spec.whatwg.org/#a-new-promise>
    fn new_promise(&mut self) -> Result<(Self::Value, Self::Deferred), Self::Error>;

    /// Spec: <https://webidl.spec.whatwg.org/#resolve>
    fn resolve(&mut self, deferred: Self::Deferred, value: Self::Value) -> Result<(), Self::Error>;

    /// Spec: <https://webidl.spec.whatwg.org/#reject>
    fn reject(&mut self, deferred: Self::Deferred, reason: Self::Value) -> Result<(), Self::Error>;

    /// Has a value [converted] to a promise, and has [`Realm::settle`](crate::Realm::settle) called with this
    /// key once that promise is settled. Neither step uses what scripts have made of `Promise.prototype`. A
    /// value that is a promise already is not asked for its `constructor`.
    ///
    /// [converted]: https://webidl.spec.whatwg.org/#js-promise
    fn react(&mut self, value: Self::Value, key: RequestKey) -> Result<(), Self::Error>;

    // Abort signals.

    /// Whether the value is an object with the interface `AbortSignal`. An object that only looks like one is
    /// not, nor is a proxy.
    ///
    /// Spec: <https://webidl.spec.whatwg.org/#implements>
    fn is_signal(&mut self, value: &Self::Value) -> Result<bool, Self::Error>;

    /// The reason with which a signal has aborted, if it has.
    ///
    /// Spec: <https://dom.spec.whatwg.org/#abortsignal-abort-reason>
    fn abort_reason(&mut self, signal: &Self::Value) -> Result<Option<Self::Value>, Self::Error>;

    /// Has [`Realm::abort`](crate::Realm::abort) called with this key, and the signal's reason, when the
    /// signal aborts. Returns the handle that [`remove_abort_algorithm`](Self::remove_abort_algorithm) takes.
    ///
    /// Spec: <https://dom.spec.whatwg.org/#abortsignal-add>
    fn add_abort_algorithm(
        &mut self,
        signal: &Self::Value,
        key: RequestKey,
    ) -> Result<Self::Value, Self::Error>;

    /// Spec: <https://dom.spec.whatwg.org/#abortsignal-remove>
    fn remove_abort_algorithm(
        &mut self,
        signal: &Self::Value,
        algorithm: &Self::Value,
    ) -> Result<(), Self::Error>;
}

/// Identifies a request of a [`Realm`](crate::Realm). A key is never used again for another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

impl RequestKey {
    /// As a number, for engines whose functions can keep one.
    pub const fn to_bits(self) -> u64 {
        (self.serial as u64) << 32 | self.index as u64
    }

    /// The key with these [`to_bits`](Self::to_bits).
    pub const fn from_bits(bits: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (index, serial) = (bits as u32, (bits >> 32) as u32);
        Self { index, serial }
    }
}
