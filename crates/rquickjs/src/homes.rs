//! The homes of a runtime: finds or makes the home of a context.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
    rc::{Rc, Weak},
};

use rquickjs::{Ctx, Error, Function, JsLifetime, Object, Result, Value};

use crate::{
    class::Classes,
    home::{Home, HomeObject},
    refusal,
    scripts::{Hooks, Tools, evaluate},
};

impl<'js> Home<'js> {
    /// The home of this context, if the context has one.
    pub(crate) fn find(ctx: &Ctx<'js>) -> Option<HomeObject<'js>> {
        let homes = ctx.userdata::<Homes<'_>>()?;
        let home = homes.0.borrow().get(&key(ctx))?.upgrade()?;
        home.object.get().cloned()
    }

    /// The homes of all contexts of the runtime.
    pub(crate) fn all(ctx: &Ctx<'js>) -> Vec<HomeObject<'js>> {
        let Some(homes) = ctx.userdata::<Homes<'_>>() else { return Vec::new() };
        let homes = homes.0.borrow();
        let alive = homes.values().filter_map(Weak::upgrade);
        alive.filter_map(|home| home.object.get().cloned()).collect()
    }

    /// Makes the home of a context that has none yet.
    pub(crate) fn make(ctx: &Ctx<'js>, classes: Classes) -> Result<HomeObject<'js>> {
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
            refusal: refusal::refusal(classes, &prototype)?,
            last_name: RefCell::default(),
            spare: RefCell::default(),
            navigator: OnceCell::new(),
            object: OnceCell::new(),
            agents: RefCell::default(),
            count: Cell::default(),
        });
        let object = HomeObject::new(classes, &prototype, home)?;
        // The cell was empty, so this cannot fail.
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

    /// Removes a home whose making has failed. The next call that looks for the home makes another
    /// one.
    pub(crate) fn forget(ctx: &Ctx<'js>) {
        if let Some(homes) = ctx.userdata::<Homes<'_>>() {
            homes.0.borrow_mut().remove(&key(ctx));
        }
    }
}

/// The homes of a runtime's contexts, by [`key`].
#[derive(Default)]
struct Homes<'js>(RefCell<BTreeMap<usize, Weak<Home<'js>>>>);

// SAFETY: `'js` is the lifetime of all QuickJS values in this type. A change of `'js` changes
// nothing else.
#[expect(unsafe_code, reason = "the derive knows no `Weak`")]
unsafe impl<'js> JsLifetime<'js> for Homes<'js> {
    type Changed<'to> = Homes<'to>;
}

/// The key of a context, which is unique as long as the context lives. The home does not outlive
/// its context. So a later context at the same address does not find that home.
fn key(ctx: &Ctx<'_>) -> usize {
    ctx.as_raw().as_ptr() as usize
}
