//! Values of JavaScript, in a call and beyond it.

use std::{cell::Cell, rc::Rc};

use napi_sys::{ValueType, napi_deferred, napi_ref};

use crate::js::{Env, Failure, Local};

/// Which call into us it is. Each is another one.
pub(crate) type Call = u64;

/// A value. It is kept alive only if it was [`kept`](Self::keep): a handle is cheap, and good for the call
/// in which it was made; a reference is as dear as a string, and the least of what comes is kept.
#[derive(Clone)]
pub(crate) struct Value {
    /// What `typeof` has said of it.
    kind: Cell<Option<i32>>,
    place: Place,
}

#[derive(Clone)]
enum Place {
    /// `undefined` or `null`, which need no handle before somebody sees them.
    Nothing,
    Local(Local, Call),
    Kept(Rc<Reference>),
}

/// A reference that keeps what it leads to.
struct Reference {
    env: Env,
    to: napi_ref,
    /// The handle that it was made of.
    local: Local,
    call: Call,
}

/// What settles a promise. Dropped it leaves Node-API's part of it in memory until the environment ends:
/// that is where we drop any.
pub(crate) struct Deferred(pub(crate) napi_deferred);

impl Value {
    pub(crate) const fn undefined() -> Self {
        Self { kind: Cell::new(Some(ValueType::napi_undefined)), place: Place::Nothing }
    }

    pub(crate) fn null() -> Self {
        Self { kind: Cell::new(Some(ValueType::napi_null)), place: Place::Nothing }
    }

    pub(crate) fn local(local: Local, call: Call) -> Self {
        Self { kind: Cell::new(None), place: Place::Local(local, call) }
    }

    /// A handle of it for this call.
    ///
    /// # Errors
    ///
    /// If it is one of another call, and was not kept.
    pub(crate) fn handle(&self, env: Env, call: Call) -> Result<Local, Failure> {
        match &self.place {
            Place::Nothing if self.kind.get() == Some(ValueType::napi_null) => env.null(),
            Place::Nothing => env.undefined(),
            Place::Local(local, of) if *of == call => Ok(*local),
            Place::Local(..) => Err(Failure::Own("a value was used after its call".to_owned())),
            Place::Kept(reference) if reference.call == call => Ok(reference.local),
            Place::Kept(reference) => env.referenced(reference.to),
        }
    }

    /// What `typeof` says of it.
    pub(crate) fn kind(&self, env: Env, call: Call) -> Result<i32, Failure> {
        if let Some(kind) = self.kind.get() {
            return Ok(kind);
        }
        let kind = env.kind(self.handle(env, call)?)?;
        self.kind.set(Some(kind));
        Ok(kind)
    }

    /// The same value, for longer than this call, if it is an object or a function.
    pub(crate) fn keep(self, env: Env, call: Call) -> Result<Self, Failure> {
        let kind = self.kind(env, call)?;
        let Place::Local(..) = self.place else { return Ok(self) };
        if kind != ValueType::napi_object && kind != ValueType::napi_function {
            return Ok(self);
        }
        let local = self.handle(env, call)?;
        let reference = Reference { env, to: env.reference(local)?, local, call };
        Ok(Self { kind: self.kind, place: Place::Kept(Rc::new(reference)) })
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // On the thread of the environment, while it lives: our host sees to that. What is not given back
        // goes with the environment.
        let _ = self.env.forget(self.to);
    }
}
