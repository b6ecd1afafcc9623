//! All that a context has of this crate.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    rc::{Rc, Weak},
};

use navlock::{LockManager, ResourceName, UserAgent, host};
use navlock_js::Realm;
use rquickjs::{
    Constructor, Ctx, Error, Function, JsLifetime, Object, Result, Value,
    class::{Trace, Tracer},
    context::EvalOptions,
};

use crate::{
    class::{self, Classes, Collector, HomeObject},
    engine::Deferred,
    interfaces,
    raw::Bare,
};

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
    pub(crate) classes: Classes,
    /// `Promise.prototype.then`, as it was.
    pub(crate) then: Bare<'js>,
    pub(crate) function_prototype: Object<'js>,
    pub(crate) tools: Tools<'js>,
    pub(crate) hooks: Hooks<'js>,
    pub(crate) manager_prototype: Object<'js>,
    pub(crate) lock_prototype: Object<'js>,
    /// See [`refuse`](class::refuse).
    pub(crate) refusal: Bare<'js>,
    /// An object like those with the interface `Lock`.
    ///
    /// FAST: QuickJS makes the layout of an object anew if it knows no other object that has the same. So
    /// there always is one.
    lock_like: Object<'js>,
    /// The short name that was asked for last, and the string that it was. No object, so the collector of
    /// garbage need not see it.
    pub(crate) last_name: RefCell<Option<(Bare<'js>, ResourceName)>>,
    /// A function for what a callback has returned that has done its work, and waits for more.
    pub(crate) spare: RefCell<Option<Bare<'js>>>,
    /// What is registered as `navigator.locks`, once it is.
    pub(crate) navigator: OnceCell<Navigator<'js>>,
    /// Itself, as the content of its object.
    object: OnceCell<HomeObject<'js>>,
    /// The agents, by their numbers, which are never used again: functions of scripts know them by these.
    /// Those that have ended may be gone.
    agents: RefCell<BTreeMap<usize, Rc<Agent<'js>>>>,
    /// How many agents there have been.
    count: Cell<usize>,
}

/// `navigator`, and what it has.
pub(crate) struct Navigator<'js> {
    pub(crate) object: Bare<'js>,
    pub(crate) locks: Bare<'js>,
    /// Of the agent.
    pub(crate) number: usize,
}

/// What realms of this engine keep.
pub(crate) type QuickRealm<'js> = Realm<Bare<'js>, Deferred<'js>>;

/// An agent of the context.
pub(crate) struct Agent<'js> {
    pub(crate) realm: QuickRealm<'js>,
    /// The object with the interface `LockManager`.
    pub(crate) object: Bare<'js>,
    #[cfg(feature = "futures")]
    pub(crate) drive: crate::drive::Drive,
}

impl<'js> Agent<'js> {
    pub(crate) fn object(&self, ctx: &Ctx<'js>) -> Object<'js> {
        self.object.value(ctx).into_object().expect("it was made as an object")
    }
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
        keep: Function = "keep",
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
    pub(crate) fn find(ctx: &Ctx<'js>) -> Option<HomeObject<'js>> {
        let homes = ctx.userdata::<Homes<'_>>()?;
        let home = homes.0.borrow().get(&key(ctx))?.upgrade()?;
        home.object.get().cloned()
    }

    /// Those of all contexts of the runtime.
    pub(crate) fn all(ctx: &Ctx<'js>) -> Vec<HomeObject<'js>> {
        let Some(homes) = ctx.userdata::<Homes<'_>>() else { return Vec::new() };
        let homes = homes.0.borrow();
        let alive = homes.values().filter_map(Weak::upgrade);
        alive.filter_map(|home| home.object.get().cloned()).collect()
    }

    /// That of a context that has none yet.
    pub(crate) fn make(ctx: &Ctx<'js>) -> Result<HomeObject<'js>> {
        let tools = evaluate(ctx, "navlock:tools", include_str!("tools.js"))?;
        let tools: Object<'_> = tools.call(())?;
        let then: Value<'_> = tools.get("then")?;
        let host = Object::new(ctx.clone())?;
        for (ours, theirs) in [("report", "reportError"), ("setTimeout", "setTimeout")] {
            let function: Value<'_> = ctx.globals().get(theirs)?;
            if function.is_function() {
                host.set(ours, function)?;
            }
        }
        let hooks = evaluate(ctx, "navlock:dom", navlock_js::DOM)?;
        let hooks = Hooks::from_object(&hooks.call((ctx.globals(), host))?)?;
        let classes = Classes::of(ctx)?;
        let prototype = Object::new(ctx.clone())?;
        let lock_prototype = Object::new(ctx.clone())?;
        let home = Rc::new(Self {
            ctx: ctx.clone(),
            classes,
            then: then.into(),
            function_prototype: Function::prototype(ctx.clone()),
            tools: Tools::from_object(&tools)?,
            hooks,
            manager_prototype: Object::new(ctx.clone())?,
            lock_like: Object::new_proto(ctx.clone(), Some(&lock_prototype))?,
            lock_prototype,
            refusal: class::refusal(classes, &prototype)?,
            last_name: RefCell::default(),
            spare: RefCell::default(),
            navigator: OnceCell::new(),
            object: OnceCell::new(),
            agents: RefCell::default(),
            count: Cell::default(),
        });
        let object = HomeObject::new(classes, &prototype, home)?;
        // It was empty.
        let _ = object.object.set(object.clone());
        let kept = object.object().value(ctx);
        object.tools.keep.call::<_, ()>((ctx.globals(), kept))?;
        if ctx.userdata::<Homes<'_>>().is_none() {
            ctx.store_userdata(Homes::default())?;
        }
        let homes = ctx.userdata::<Homes<'_>>().ok_or(Error::Unknown)?;
        let mut homes = homes.0.borrow_mut();
        homes.retain(|_, home| home.strong_count() > 0);
        homes.insert(key(ctx), object.downgrade());
        Ok(object)
    }

    /// That it could not be made whole: the next one to look for it makes another.
    pub(crate) fn forget(ctx: &Ctx<'js>) {
        if let Some(homes) = ctx.userdata::<Homes<'_>>() {
            homes.0.borrow_mut().remove(&key(ctx));
        }
    }

    /// Another agent. Those of which nothing is left are kept no more, but for that of `navigator.locks`,
    /// which is there for ever.
    pub(crate) fn enter(&self, locks: LockManager) -> Result<(usize, Rc<Agent<'js>>)> {
        let number = self.count.get();
        self.count.set(number + 1);
        let home = self.object.get().ok_or(Error::Unknown)?;
        let object = interfaces::lock_manager(home, number)?;
        let agent = Rc::new(Agent {
            realm: Realm::new(locks),
            object,
            #[cfg(feature = "futures")]
            drive: <_>::default(),
        });
        let navigators = self.navigator.get().map(|navigator| navigator.number);
        let over: Vec<_> = {
            let mut agents = self.agents.borrow_mut();
            agents.insert(number, Rc::clone(&agent));
            // Not each time: constant amortised time.
            let is_time = agents.len().is_power_of_two();
            let all = agents.iter().filter(|_| is_time);
            let over = all.filter(|(_, agent)| agent.realm.is_over()).map(|(number, _)| *number);
            let over: Vec<usize> = over.filter(|number| Some(*number) != navigators).collect();
            over.iter().filter_map(|number| agents.remove(number)).collect()
        };
        drop(over);
        Ok((number, agent))
    }

    /// The agents, by their numbers.
    pub(crate) fn agents(&self) -> Vec<(usize, Rc<Agent<'js>>)> {
        let agents = self.agents.borrow();
        agents.iter().map(|(number, agent)| (*number, Rc::clone(agent))).collect()
    }

    /// `None` if it has ended, and was forgotten.
    pub(crate) fn agent(&self, number: usize) -> Option<Rc<Agent<'js>>> {
        self.agents.borrow().get(&number).cloned()
    }

    /// What this agent's scripts have asked for; of one that was forgotten, what there is of any agent
    /// that has ended.
    pub(crate) fn realm(&self, number: usize) -> QuickRealm<'js> {
        let realm = self.agents.borrow().get(&number).map(|agent| agent.realm.clone());
        realm.unwrap_or_else(|| {
            let locks = UserAgent::new().lock_manager("");
            locks.terminate();
            Realm::new(locks)
        })
    }

    /// Its object, for who is where no call holds the context.
    #[cfg(feature = "futures")]
    pub(crate) fn object(&self) -> Option<&HomeObject<'js>> {
        self.object.get()
    }

    /// Shows all values that it keeps.
    pub(crate) fn show(&self, collector: &Collector) {
        let Self {
            ctx,
            classes: _,
            then,
            function_prototype,
            tools,
            hooks,
            manager_prototype,
            lock_prototype,
            refusal,
            lock_like,
            last_name: _,
            spare,
            navigator,
            object,
            agents,
            count: _,
        } = self;
        let tracer = collector.tracer();
        ctx.trace(tracer);
        collector.see(then);
        function_prototype.trace(tracer);
        tools.trace(tracer);
        hooks.trace(tracer);
        manager_prototype.trace(tracer);
        lock_prototype.trace(tracer);
        collector.see(refusal);
        lock_like.trace(tracer);
        if let Ok(spare) = spare.try_borrow() {
            spare.iter().for_each(|spare| collector.see(spare));
        }
        if let Some(Navigator { object, locks, .. }) = navigator.get() {
            collector.see(object);
            collector.see(locks);
        }
        object.get().into_iter().for_each(|object| collector.see(object.object()));
        let Ok(agents) = agents.try_borrow() else { return };
        for agent in agents.values() {
            let Agent { realm, object, .. } = &**agent;
            collector.see(object);
            realm.trace(|value| collector.see(value), |deferred| deferred.show(collector));
        }
    }

    /// Its context is freed, and the agents end with it.
    pub(crate) fn end(&self) {
        // Whoever still has one of the realms, in a call that is about to return, has nothing of
        // QuickJS by it any more.
        let Ok(mut agents) = self.agents.try_borrow_mut() else { return };
        let agents = std::mem::take(&mut *agents);
        // At one moment: none of them is granted what another held. At the end of a runtime QuickJS has dropped its
        // jobs by now, and with them what waited there has ended one after the other.
        host::terminate_all(agents.values().map(|agent| agent.realm.locks()));
        for agent in agents.into_values() {
            agent.realm.end();
        }
    }
}

/// The homes of a runtime's contexts, by [`key`].
#[derive(Default)]
struct Homes<'js>(RefCell<BTreeMap<usize, Weak<Home<'js>>>>);

// SAFETY: `'js` is the lifetime of the values of QuickJS in it, all of them, and with another one it is
// the same type.
#[expect(unsafe_code, reason = "the derive knows no `Weak`")]
unsafe impl<'js> JsLifetime<'js> for Homes<'js> {
    type Changed<'to> = Homes<'to>;
}

/// What a context is known by as long as it lives. Its home does not outlive it, so that the next
/// context in the same place does not find that.
fn key(ctx: &Ctx<'_>) -> usize {
    ctx.as_raw().as_ptr() as usize
}

fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}
