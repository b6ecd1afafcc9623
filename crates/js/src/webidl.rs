//! What Web IDL makes of arguments: <https://webidl.spec.whatwg.org/#js-type-mapping>.

use navlock_core::{LockInfo, LockManagerSnapshot, LockOptions, Mode, ReservedName, ResourceName};

use crate::Engine;

/// The arguments of `request()`, converted.
pub(crate) struct Arguments<V> {
    pub(crate) name: Result<ResourceName, ReservedName>,
    pub(crate) options: LockOptions,
    pub(crate) signal: Option<V>,
    pub(crate) callback: V,
}

impl<V: Clone> Arguments<V> {
    /// Chooses the overload by the number of arguments, and converts them from the left to the right.
    ///
    /// Spec: <https://webidl.spec.whatwg.org/#es-overloads>,
    /// <https://w3c.github.io/web-locks/#api-lock-manager>
    pub(crate) fn convert<E: Engine<Value = V>>(
        engine: &mut E,
        given: &[V],
    ) -> Result<Self, E::Error> {
        let (name, options, callback) = match given {
            [] | [_] => {
                let count = given.len();
                let message =
                    format!("request() needs a name and a callback; {count} of 2 arguments given");
                return Err(type_error(engine, &message));
            }
            [name, callback] => (name, None, callback),
            [name, options, callback, ..] => (name, Some(options), callback),
        };
        let name = engine.to_name(name)?;
        let (options, signal) = match options {
            Some(options) => lock_options(engine, options)?,
            None => <_>::default(),
        };
        if !engine.is_callable(callback) {
            return Err(type_error(engine, "the callback of request() is not a function"));
        }
        Ok(Self { name, options, signal, callback: callback.clone() })
    }
}

/// The dictionary `LockOptions`, and its signal: each member is read once, in the order of the
/// alphabet.
///
/// Spec: <https://webidl.spec.whatwg.org/#js-dictionary>,
/// <https://w3c.github.io/web-locks/#dictdef-lockoptions>
fn lock_options<E: Engine>(
    engine: &mut E,
    value: &E::Value,
) -> Result<(LockOptions, Option<E::Value>), E::Error> {
    let mut options = LockOptions::default();
    // 1. Only objects, undefined and null are dictionaries.
    if engine.is_undefined(value) || engine.is_null(value) {
        return Ok((options, None));
    }
    if !engine.is_object(value) {
        return Err(type_error(engine, "the options of request() are not an object"));
    }
    // 4.
    let if_available = engine.get(value, "ifAvailable")?;
    options.if_available = engine.to_boolean(&if_available);
    let mode = engine.get(value, "mode")?;
    if !engine.is_undefined(&mode) {
        options.mode = lock_mode(engine, &mode)?;
    }
    let signal = engine.get(value, "signal")?;
    let signal = if engine.is_undefined(&signal) {
        None
    } else if engine.is_signal(&signal)? {
        Some(signal)
    } else {
        return Err(type_error(engine, "the option signal of request() is not an AbortSignal"));
    };
    options.signal = signal.is_some();
    let steal = engine.get(value, "steal")?;
    options.steal = engine.to_boolean(&steal);
    Ok((options, signal))
}

/// Spec: <https://webidl.spec.whatwg.org/#js-enumeration>,
/// <https://w3c.github.io/web-locks/#enumdef-lockmode>
fn lock_mode<E: Engine>(engine: &mut E, value: &E::Value) -> Result<Mode, E::Error> {
    let units = engine.to_utf16(value)?;
    let text = String::from_utf16_lossy(&units);
    match text.as_str() {
        "exclusive" => Ok(Mode::Exclusive),
        "shared" => Ok(Mode::Shared),
        _ => {
            let shown: String = text.chars().take(40).collect();
            let message = format!(
                "the option mode of request() is {shown:?}; it can be \"exclusive\" or \"shared\""
            );
            Err(type_error(engine, &message))
        }
    }
}

/// The dictionary `LockManagerSnapshot`.
///
/// Spec: <https://w3c.github.io/web-locks/#dictdef-lockmanagersnapshot>,
/// <https://w3c.github.io/web-locks/#snapshot-the-lock-state>
pub(crate) fn snapshot<E: Engine>(
    engine: &mut E,
    snapshot: &LockManagerSnapshot,
) -> Result<E::Value, E::Error> {
    let mut units = Vec::new();
    let mut string = |engine: &mut E, text: &mut dyn Iterator<Item = u16>| {
        units.clear();
        units.extend(text);
        engine.string(&units)
    };
    let mut list = |locks: &[LockInfo]| {
        let mut values = Vec::with_capacity(locks.len());
        for LockInfo { name, mode, client_id, .. } in locks {
            let properties = [
                ("clientId", string(engine, &mut client_id.to_string().encode_utf16())?),
                ("mode", string(engine, &mut mode.as_str().encode_utf16())?),
                ("name", string(engine, &mut name.utf16())?),
            ];
            values.push(engine.object(properties)?);
        }
        engine.array(values)
    };
    let (held, pending) = (list(&snapshot.held)?, list(&snapshot.pending)?);
    engine.object([("held", held), ("pending", pending)])
}

/// The error that throws a `TypeError`.
pub(crate) fn type_error<E: Engine>(engine: &mut E, message: &str) -> E::Error {
    match engine.type_error(message) {
        Ok(error) => engine.throw(error),
        Err(error) => error,
    }
}
