//! All that a context has of this crate.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
};

use navlock::{LockManager, host};
use navlock_js::Realm;
use rquickjs::{
    Class, Constructor, Ctx, Error, Function, JsLifetime, Object, Result, Value,
    class::{JsClass, Readable, Trace, Tracer},
    context::EvalOptions,
};

use crate::{drive::Drive, engine::Deferred, interfaces};

/// All that a context has of this crate.
///
/// It is the content of one object, which a private field of the global object keeps: so it lives as
/// long as the context does, and when QuickJS finds that nobody has the context any more, the agents end
/// with it.
///
/// # Invariant
///
/// Values of JavaScript that outlive a call stand here, in a realm, or in an object of a class of this
/// crate, and are shown to QuickJS's collector of garbage by exactly one object: by none, they would
/// keep their context for ever; by two, QuickJS would take them for garbage while they are used. So
/// nothing keeps an `Rc` of this for longer than a call, but for that one object.
pub(crate) struct Home<'js> {
    pub(crate) ctx: Ctx<'js>,
    pub(crate) tools: Tools<'js>,
    pub(crate) hooks: Hooks<'js>,
    pub(crate) manager_prototype: Object<'js>,
    pub(crate) lock_prototype: Object<'js>,
    /// `navigator`, and its `locks`, once they are there.
    pub(crate) navigator: OnceCell<(Object<'js>, Object<'js>)>,
    /// Itself, as the content of its object.
    object: OnceCell<Class<'js, HomeObject<'js>>>,
    /// The agents, never taken out: by their place they are known to the functions of scripts.
    agents: RefCell<Vec<Agent<'js>>>,
}

/// What realms of this engine keep.
pub(crate) type QuickRealm<'js> = Realm<Value<'js>, Deferred<'js>>;

/// An agent of the context.
#[derive(Clone)]
pub(crate) struct Agent<'js> {
    pub(crate) realm: QuickRealm<'js>,
    /// The object with the interface `LockManager`.
    pub(crate) object: Object<'js>,
    pub(crate) drive: Rc<Drive>,
}

macro_rules! functions {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ident = $key:literal,)* }) => {
        $(#[$doc])*
        pub(crate) struct $name<'js> {
            $(pub(crate) $field: $type<'js>,)*
        }

        impl<'js> $name<'js> {
            fn from_object(object: &Object<'js>) -> Result<Self> {
                Ok(Self { $($field: object.get($key)?,)* })
            }
        }

        impl<'js> Trace<'js> for $name<'js> {
            fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
                $(self.$field.trace(tracer);)*
            }
        }
    };
}

functions! {
    /// What `tools.js` gives.
    Tools {
        type_error: Constructor = "TypeError",
        from_char_code: Function = "fromCharCode",
        keep: Function = "keep",
        then: Function = "then",
        concatenate: Function = "concatenate",
        length: Function = "length",
        unit_at: Function = "unitAt",
    }
}

functions! {
    /// What `dom.js` gives.
    Hooks {
        dom_exception: Constructor = "DOMException",
        is_signal: Function = "isSignal",
        aborted: Function = "aborted",
        reason: Function = "reason",
        add: Function = "add",
        remove: Function = "remove",
    }
}

impl<'js> Home<'js> {
    /// That of this context, if it is there.
    pub(crate) fn find(ctx: &Ctx<'js>) -> Option<Class<'js, HomeObject<'js>>> {
        let homes = ctx.userdata::<Homes<'_>>()?;
        let home = homes.0.borrow().get(&key(ctx))?.upgrade()?;
        home.object.get().cloned()
    }

    /// Those of all contexts of the runtime.
    pub(crate) fn all(ctx: &Ctx<'js>) -> Vec<Class<'js, HomeObject<'js>>> {
        let Some(homes) = ctx.userdata::<Homes<'_>>() else { return Vec::new() };
        let homes = homes.0.borrow();
        let alive = homes.values().filter_map(Weak::upgrade);
        alive.filter_map(|home| home.object.get().cloned()).collect()
    }

    /// That of a context that has none yet.
    pub(crate) fn make(ctx: &Ctx<'js>) -> Result<Class<'js, HomeObject<'js>>> {
        let tools = evaluate(ctx, "navlock:tools", include_str!("tools.js"))?;
        let tools = Tools::from_object(&tools.call(())?)?;
        let host = Object::new(ctx.clone())?;
        for (ours, theirs) in [("report", "reportError"), ("setTimeout", "setTimeout")] {
            let function: Value<'_> = ctx.globals().get(theirs)?;
            if function.is_function() {
                host.set(ours, function)?;
            }
        }
        let hooks = evaluate(ctx, "navlock:dom", navlock_js::DOM)?;
        let hooks = Hooks::from_object(&hooks.call((ctx.globals(), host))?)?;
        let home = Rc::new(Self {
            ctx: ctx.clone(),
            tools,
            hooks,
            manager_prototype: Object::new(ctx.clone())?,
            lock_prototype: Object::new(ctx.clone())?,
            navigator: OnceCell::new(),
            object: OnceCell::new(),
            agents: RefCell::default(),
        });
        let remembered = Rc::downgrade(&home);
        let object = instance(Object::new(ctx.clone())?, HomeObject(home))?;
        {
            let home = object.borrow();
            // It was empty.
            let _ = home.0.object.set(object.clone());
            home.0.tools.keep.call::<_, ()>((ctx.globals(), object.clone()))?;
        }
        if ctx.userdata::<Homes<'_>>().is_none() {
            ctx.store_userdata(Homes::default())?;
        }
        let homes = ctx.userdata::<Homes<'_>>().ok_or(Error::Unknown)?;
        let mut homes = homes.0.borrow_mut();
        homes.retain(|_, home| home.strong_count() > 0);
        homes.insert(key(ctx), remembered);
        Ok(object)
    }

    /// Another agent. Its number.
    pub(crate) fn enter(&self, locks: LockManager) -> Result<usize> {
        let number = self.agents.borrow().len();
        let home = self.object.get().ok_or(Error::Unknown)?;
        let object = interfaces::lock_manager(home, number)?;
        let agent = Agent { realm: Realm::new(locks), object, drive: Rc::default() };
        self.agents.borrow_mut().push(agent);
        Ok(number)
    }

    pub(crate) fn count(&self) -> usize {
        self.agents.borrow().len()
    }

    pub(crate) fn agent(&self, number: usize) -> Agent<'js> {
        self.agents.borrow()[number].clone()
    }

    pub(crate) fn realm(&self, number: usize) -> QuickRealm<'js> {
        self.agents.borrow()[number].realm.clone()
    }

    pub(crate) fn drive(&self, number: usize) -> Rc<Drive> {
        Rc::clone(&self.agents.borrow()[number].drive)
    }

    /// The way to this agent from where no call holds the context.
    #[cfg(feature = "futures")]
    pub(crate) fn engine(&self, number: usize) -> Option<crate::engine::Quick<'js>> {
        Some(crate::engine::Quick::new(self.object.get()?, number))
    }
}

/// The object of a [`Home`].
pub(crate) struct HomeObject<'js>(pub(crate) Rc<Home<'js>>);

// SAFETY: `'js` is the lifetime of the values of QuickJS in it, all of them, and with another one it is
// the same type.
#[expect(unsafe_code, reason = "the derive does not know that a `Realm` only keeps such values")]
unsafe impl<'js> JsLifetime<'js> for HomeObject<'js> {
    type Changed<'to> = HomeObject<'to>;
}

impl<'js> Trace<'js> for HomeObject<'js> {
    fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
        let Home {
            ctx,
            tools,
            hooks,
            manager_prototype,
            lock_prototype,
            navigator,
            object,
            agents,
        } = &*self.0;
        ctx.trace(tracer);
        tools.trace(tracer);
        hooks.trace(tracer);
        manager_prototype.trace(tracer);
        lock_prototype.trace(tracer);
        if let Some((navigator, locks)) = navigator.get() {
            navigator.trace(tracer);
            locks.trace(tracer);
        }
        object.get().into_iter().for_each(|object| object.trace(tracer));
        let Ok(agents) = agents.try_borrow() else { return };
        for Agent { realm, object, .. } in &*agents {
            object.trace(tracer);
            realm.trace(|value| value.trace(tracer), |deferred| deferred.trace(tracer));
        }
    }
}

impl Drop for HomeObject<'_> {
    fn drop(&mut self) {
        // Whoever still has one of the realms, in a call that is about to return, has nothing of
        // QuickJS by it any more.
        let Ok(mut agents) = self.0.agents.try_borrow_mut() else { return };
        let agents = std::mem::take(&mut *agents);
        // At one moment: none of them is granted what another held.
        host::terminate_all(agents.iter().map(|agent| agent.realm.locks()));
        for Agent { realm, drive, .. } in agents {
            drive.has_ended.set(true);
            realm.end();
        }
    }
}

impl<'js> JsClass<'js> for HomeObject<'js> {
    const NAME: &'static str = "Navlock";

    type Mutable = Readable;

    fn prototype(_: &Ctx<'js>) -> Result<Option<Object<'js>>> {
        Ok(None)
    }

    fn constructor(_: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }
}

/// The homes of a runtime's contexts, by [`key`].
#[derive(Default)]
struct Homes<'js>(RefCell<HashMap<usize, Weak<Home<'js>>>>);

// SAFETY: as for `HomeObject`.
#[expect(unsafe_code, reason = "the derive knows no `Weak`")]
unsafe impl<'js> JsLifetime<'js> for Homes<'js> {
    type Changed<'to> = Homes<'to>;
}

/// What a context is known by as long as it lives. Its home does not outlive it, so that the next
/// context in the same place does not find that.
fn key(ctx: &Ctx<'_>) -> usize {
    ctx.as_raw().as_ptr() as usize
}

/// An object of a class of this crate. Not `Class::instance`: for that rquickjs keeps one prototype for
/// all contexts of a runtime, and with it the first context, until the runtime ends.
pub(crate) fn instance<'js, C: JsClass<'js>>(
    prototype: Object<'js>,
    content: C,
) -> Result<Class<'js, C>> {
    Class::instance_proto(content, prototype)
}

fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}
