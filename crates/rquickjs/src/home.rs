//! The state of this crate in one context, and the contents of its objects.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    ops::Deref,
    ptr::NonNull,
    rc::{Rc, Weak},
};

use navlock::{LockManager, Mode, ResourceName, UserAgent, host};
use navlock_js::Realm;
use rquickjs::{Ctx, Error, Object, Result, Value, class::Trace, qjs::JSClassID};

use crate::{
    agent::{Agent, QuickRealm},
    class::{Class, Classes, content, instance},
    collector::{Collector, Show},
    raw::Bare,
    scripts::{Hooks, Tools},
};

/// The state of this crate in one context.
///
/// A home is the content of one object, which a private field of the global object keeps alive. So
/// the home lives as long as the context. When QuickJS finds that nobody uses the context any more,
/// the agents end with the home.
///
/// # Invariant
///
/// Values of JavaScript that outlive a call are kept in a home, in a realm, or in an object of a
/// class of this crate. Exactly one object shows each value to QuickJS's garbage collector. If no
/// object did, the value would keep its context alive for ever. If two objects did, QuickJS would
/// free the value while it is used. So only the one object of the home keeps an `Rc` of the home
/// for longer than a call.
pub(crate) struct Home<'js> {
    pub(crate) ctx: Ctx<'js>,
    pub(crate) classes: Classes,
    /// `Promise.prototype.then`, as it was before scripts could change it.
    pub(crate) then: Bare<'js>,
    pub(crate) function_prototype: Object<'js>,
    pub(crate) tools: Tools<'js>,
    pub(crate) hooks: Hooks<'js>,
    pub(crate) manager_prototype: Object<'js>,
    pub(crate) lock_prototype: Object<'js>,
    /// The object for [`refuse`](crate::refusal::refuse).
    pub(crate) refusal: Bare<'js>,
    /// An object like those with the interface `Lock`.
    ///
    /// FAST: QuickJS makes the layout of an object anew if no other object has the same layout. So this
    /// object keeps the layout of locks alive.
    pub(crate) lock_like: Object<'js>,
    /// The short name that was requested last, as a JavaScript string and as a [`ResourceName`]. A
    /// string is no object, so the garbage collector need not see it.
    pub(crate) last_name: RefCell<Option<(Bare<'js>, ResourceName)>>,
    /// A function that has settled a request, kept to settle another one.
    pub(crate) spare: RefCell<Option<Bare<'js>>>,
    /// `navigator.locks`, once it is registered.
    pub(crate) navigator: OnceCell<Navigator<'js>>,
    /// The object of this home.
    pub(crate) object: OnceCell<HomeObject<'js>>,
    /// The agents by number. Functions of scripts know their agent by its number, so no number is used
    /// twice. Agents that have ended may be gone.
    pub(crate) agents: RefCell<BTreeMap<usize, Rc<Agent<'js>>>>,
    /// How many agents there have been.
    pub(crate) count: Cell<usize>,
}

/// The object `navigator`, and its `locks`.
pub(crate) struct Navigator<'js> {
    pub(crate) object: Bare<'js>,
    pub(crate) locks: Bare<'js>,
    /// The number of its agent.
    pub(crate) number: usize,
}

/// A counted reference to the object of a [`Home`], and a pointer to the home.
pub(crate) struct HomeObject<'js> {
    object: Bare<'js>,
    home: NonNull<Home<'js>>,
}

/// The content of those objects of this crate that are not functions.
pub(crate) enum Content<'js> {
    Home(HomeContent<'js>),
    Manager(ManagerObject<'js>),
    Lock(LockObject),
}

/// The content of the one object that keeps the home of its context alive.
pub(crate) struct HomeContent<'js>(pub(crate) Rc<Home<'js>>);

/// An object with the interface `LockManager`.
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock-manager>
pub(crate) struct ManagerObject<'js> {
    pub(crate) home: HomeObject<'js>,
    /// The number of its agent.
    pub(crate) number: usize,
}

/// An object with the interface `Lock`.
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock>
pub(crate) struct LockObject {
    pub(crate) name: ResourceName,
    pub(crate) mode: Mode,
}

impl<'js> Home<'js> {
    /// Adds an agent. Now and then, this also removes the agents that have ended. It never removes
    /// the agent of `navigator.locks`.
    pub(crate) fn enter(&self, locks: LockManager) -> Result<(usize, Rc<Agent<'js>>)> {
        let number = self.count.get();
        self.count.set(number + 1);
        let home = self.object.get().ok_or(Error::Unknown)?;
        let manager = Content::Manager(ManagerObject { home: home.clone(), number });
        let object = instance(self.classes, &self.manager_prototype, manager)?;
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
            // The removal runs only at powers of two, so its amortised time is constant.
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

    /// The agent with this number, or `None` if the agent has ended and was removed.
    pub(crate) fn agent(&self, number: usize) -> Option<Rc<Agent<'js>>> {
        self.agents.borrow().get(&number).cloned()
    }

    /// The realm of the agent with this number. If that agent has ended and was removed, this makes
    /// the realm of an agent that has ended.
    pub(crate) fn realm(&self, number: usize) -> QuickRealm<'js> {
        let realm = self.agents.borrow().get(&number).map(|agent| agent.realm.clone());
        realm.unwrap_or_else(|| {
            let locks = UserAgent::new().lock_manager("");
            locks.terminate();
            Realm::new(locks)
        })
    }

    /// The object of the home. This is for callers that do not hold the context by a call.
    #[cfg(feature = "futures")]
    pub(crate) fn object(&self) -> Option<&HomeObject<'js>> {
        self.object.get()
    }

    /// Shows all values that the home keeps.
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

    /// Ends the agents, because the context is freed.
    pub(crate) fn end(&self) {
        // A call that is about to return may still have a clone of a realm. This does no harm,
        // because an ended realm keeps no value of QuickJS.
        let Ok(mut agents) = self.agents.try_borrow_mut() else { return };
        let agents = std::mem::take(&mut *agents);
        // All agents end at one moment, so that none of them is granted a lock that another one
        // held. At the end of a runtime, QuickJS has already dropped its jobs. The requests that
        // waited in those jobs have then ended one after the other.
        host::terminate_all(agents.values().map(|agent| agent.realm.locks()));
        for agent in agents.into_values() {
            agent.realm.end();
        }
    }
}

impl<'js> HomeObject<'js> {
    pub(crate) fn object(&self) -> &Bare<'js> {
        &self.object
    }

    pub(crate) fn downgrade(&self) -> Weak<Home<'js>> {
        match content(self.classes, &self.object) {
            Some(Content::Home(HomeContent(home))) => Rc::downgrade(home),
            _ => Weak::new(),
        }
    }

    /// An object that has this home.
    pub(crate) fn new(
        classes: Classes,
        prototype: &Value<'js>,
        home: Rc<Home<'js>>,
    ) -> Result<Self> {
        let pointer = NonNull::from(&*home);
        let object = instance(classes, prototype, Content::Home(HomeContent(home)))?;
        Ok(Self { object, home: pointer })
    }
}

impl<'js> Deref for HomeObject<'js> {
    type Target = Home<'js>;

    #[expect(unsafe_code, reason = "FAST: without a look at what the object has")]
    fn deref(&self) -> &Home<'js> {
        // SAFETY: the object has the home until the object is finalized. The object lives at least
        // as long as `self`, which counts a reference to it.
        unsafe { self.home.as_ref() }
    }
}

impl Clone for HomeObject<'_> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), home: self.home }
    }
}

impl<'js> ManagerObject<'js> {
    /// The content of a value, or `None` if the value is not a `LockManager` of this crate.
    pub(crate) fn of<'a>(classes: Classes, value: &'a Bare<'js>) -> Option<&'a Self> {
        match content(classes, value)? {
            Content::Manager(manager) => Some(manager),
            _ => None,
        }
    }
}

impl LockObject {
    /// The content of a value, or `None` if the value is not a `Lock` of this crate.
    pub(crate) fn of<'a>(classes: Classes, value: &'a Bare<'_>) -> Option<&'a Self> {
        match content(classes, value)? {
            Content::Lock(lock) => Some(lock),
            _ => None,
        }
    }
}

// SAFETY: `Classes::of` defines this class with such contents.
#[expect(unsafe_code, reason = "what an object has, only its class says")]
unsafe impl Class for Content<'_> {
    fn id(classes: Classes) -> JSClassID {
        classes.object
    }
}

impl Show for Content<'_> {
    fn show(&self, collector: &Collector) {
        match self {
            Self::Home(HomeContent(home)) => home.show(collector),
            Self::Manager(manager) => collector.see(manager.home.object()),
            Self::Lock(_) => {}
        }
    }
}

impl Drop for HomeContent<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
