//! The functions that scripts and QuickJS call.

use navlock_js::{Engine, RequestKey};
use rquickjs::{Ctx, Result};

use crate::{
    adopt::{Adoption, Step},
    class::{self, Call, Classes, Collector, HomeObject, Show},
    engine::Quick,
    interfaces::{LockObject, ManagerObject},
    raw::Bare,
};

/// A function of this crate.
///
/// Not `Function::new`: what that keeps QuickJS does not see, and see [`Classes`].
pub(crate) struct Native<'js> {
    home: HomeObject<'js>,
    /// Of which agent, where it is one of an agent.
    number: usize,
    operation: Operation<'js>,
}

/// What a function does.
pub(crate) enum Operation<'js> {
    /// `LockManager.prototype.request`
    Request,
    /// `LockManager.prototype.query`
    Query,
    /// The getter of `Lock.prototype.name`
    LockName,
    /// The getter of `Lock.prototype.mode`
    LockMode,
    /// The getter of `navigator`
    Navigator,
    /// The getter of `Navigator.prototype.locks`
    Locks,
    /// An interface object, which constructs nothing.
    Illegal,
    /// A step to what a callback has returned.
    Adopt(Adoption<'js>),
    /// The signal of a request has aborted.
    Abort {
        /// Of this request.
        key: RequestKey,
        /// That one.
        signal: Bare<'js>,
    },
}

impl<'js> Native<'js> {
    /// The function, without a name or a length.
    pub(crate) fn function(
        home: &HomeObject<'js>,
        number: usize,
        operation: Operation<'js>,
    ) -> Result<Bare<'js>> {
        let native = Self { home: home.clone(), number, operation };
        class::function(home.classes, &home.function_prototype, native)
    }

    /// The context that it is of.
    pub(crate) fn ctx(&self) -> &Ctx<'js> {
        &self.home.ctx
    }

    /// Has it adopt what another callback has returned, if it is a function for that, and of this agent.
    pub(crate) fn adopts_again(&self, number: usize, key: RequestKey, step: Step) -> bool {
        match &self.operation {
            Operation::Adopt(adoption) if self.number == number => {
                adoption.begin(key, step);
                true
            }
            _ => false,
        }
    }

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
    /// A panic goes through a call of it.
    #[cold]
    pub(crate) fn stop(&self) {
        if let Operation::Adopt(adoption) = &self.operation {
            adoption.stop(Quick { home: &self.home, number: self.number });
        }
    }
}

/// The agent whose lock manager a function is called on.
fn manager<'a, 'js>(classes: Classes, this: &'a Bare<'js>) -> Option<Quick<'a, 'js>> {
    let manager = ManagerObject::of(classes, this)?;
    Some(Quick { home: &manager.home, number: manager.number })
}

impl Show for Native<'_> {
    fn show(&self, collector: &Collector) {
        collector.see(self.home.object());
        match &self.operation {
            Operation::Abort { signal, .. } => collector.see(signal),
            Operation::Adopt(adoption) => adoption.show(collector),
            _ => {}
        }
    }
}
