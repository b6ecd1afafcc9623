//! Runs the operations behind the functions that scripts and QuickJS call.

use navlock_js::Engine;
use rquickjs::Result;

use crate::{
    call::Call,
    class::Classes,
    engine::Quick,
    function::{Native, Operation},
    home::{LockObject, ManagerObject},
    raw::Bare,
};

impl<'js> Native<'js> {
    pub(crate) fn run(&self, call: &Call<'js>) -> Result<Bare<'js>> {
        let mut own = Quick { home: &self.home, number: self.number };
        match &self.operation {
            Operation::Request => {
                let this = call.this();
                let Some(mut engine) = manager(self.home.classes, &this) else {
                    return navlock_js::illegal_invocation(&mut own, "request");
                };
                let (arguments, len) = call.arguments();
                let promise = engine.realm().request(&mut engine, &arguments[..len]);
                engine.spawn();
                promise
            }
            Operation::Query => {
                let this = call.this();
                let Some(mut engine) = manager(self.home.classes, &this) else {
                    return navlock_js::illegal_invocation(&mut own, "query");
                };
                let promise = engine.realm().query(&mut engine);
                engine.spawn();
                promise
            }
            Operation::LockName | Operation::LockMode => {
                let this = call.this();
                let Some(lock) = LockObject::of(self.home.classes, &this) else {
                    return Err(own.throw_type_error("this is no Lock"));
                };
                let units: Vec<u16> = match self.operation {
                    Operation::LockName => lock.name.utf16().collect(),
                    _ => lock.mode.as_str().encode_utf16().collect(),
                };
                own.string(&units)
            }
            Operation::Navigator => match self.home.navigator.get() {
                Some(navigator) => Ok(navigator.object.clone()),
                None => Ok(Bare::undefined(self.ctx())),
            },
            Operation::Locks => match self.home.navigator.get() {
                Some(navigator) if navigator.object.is_same_object(&call.this()) => {
                    Ok(navigator.locks.clone())
                }
                _ => Err(own.throw_type_error("this is no Navigator")),
            },
            Operation::Illegal => Err(own.throw_type_error("Illegal constructor")),
            Operation::Adopt(adoption) => {
                adoption.step(own, call)?;
                Ok(Bare::undefined(self.ctx()))
            }
            Operation::Abort { key, signal } => {
                if let Some(reason) = own.abort_reason(signal)? {
                    own.realm().abort(&mut own, *key, reason)?;
                }
                Ok(own.undefined())
            }
        }
    }
}

impl Native<'_> {
    /// Stops the operation when a panic passes through a call of the function.
    #[cold]
    pub(crate) fn stop(&self) {
        if let Operation::Adopt(adoption) = &self.operation {
            adoption.stop(Quick { home: &self.home, number: self.number });
        }
    }
}

/// The agent of the lock manager on which a function is called.
fn manager<'a, 'js>(classes: Classes, this: &'a Bare<'js>) -> Option<Quick<'a, 'js>> {
    let manager = ManagerObject::of(classes, this)?;
    Some(Quick { home: &manager.home, number: manager.number })
}
