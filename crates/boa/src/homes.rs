//! The homes and agents of a context.

use std::{cell::RefCell, mem, rc::Rc};

use boa_engine::{Context, JsNativeError, JsResult, realm::Realm};
use navlock::host;

use crate::{
    agent::Agent,
    dom::{self, Dom},
    home::Home,
    interfaces,
};

/// Kept in the data of a context, so that the agents end with the context.
#[derive(Default)]
struct Homes(Rc<RefCell<Kept>>);

#[derive(Default)]
struct Kept {
    homes: Vec<Rc<Home>>,
    agents: Vec<Rc<Agent>>,
}

impl Home {
    /// The home of the context's current realm. Defines the interfaces there if they are not defined yet.
    pub(crate) fn of(context: &mut Context) -> JsResult<Rc<Self>> {
        let kept = kept(context);
        let realm = context.realm().clone();
        if let Some(home) = kept.borrow().homes.iter().find(|home| home.realm == realm) {
            return Ok(Rc::clone(home));
        }
        // Our own scripts do not count towards the embedder's limits.
        let limits = context.runtime_limits();
        context.set_runtime_limits(boa_engine::vm::RuntimeLimits::default());
        let home = Self::define(realm, context);
        context.set_runtime_limits(limits);
        let home = Rc::new(home?);
        kept.borrow_mut().homes.push(Rc::clone(&home));
        Ok(home)
    }

    fn define(realm: Realm, context: &mut Context) -> JsResult<Self> {
        let dom = Dom::define(context)?;
        let lock = interfaces::define_lock(context)?;
        let lock_manager = interfaces::define_lock_manager(context)?;
        let then = dom::own_then(context)?;
        Ok(Self { realm, dom, lock, lock_manager, then })
    }
}

/// Has the agent end with the context. Agents of which nothing is left are no longer kept, except the one
/// behind `navigator.locks`, which stays for ever.
pub(crate) fn keep(agent: &Rc<Agent>, context: &mut Context) {
    let kept = kept(context);
    let ended: Vec<Rc<Agent>> = {
        let agents = &mut kept.borrow_mut().agents;
        agents.push(Rc::clone(agent));
        // Not each time, so that a call takes constant amortised time.
        let is_time = agents.len().is_power_of_two();
        let stays = |agent: &Rc<Agent>| !agent.requests.is_over() || agent.is_navigators.get();
        let (stay, over) =
            mem::take(agents).into_iter().partition(|agent| !is_time || stays(agent));
        *agents = stay;
        over
    };
    drop(ended);
}

pub(crate) fn homes(context: &Context) -> Vec<Rc<Home>> {
    context.get_data::<Homes>().map(|homes| homes.0.borrow().homes.clone()).unwrap_or_default()
}

pub(crate) fn agents(context: &Context) -> Vec<Rc<Agent>> {
    context.get_data::<Homes>().map(|homes| homes.0.borrow().agents.clone()).unwrap_or_default()
}

/// The agent behind `navigator.locks` of the current realm.
pub(crate) fn navigators(context: &Context) -> Option<Rc<Agent>> {
    let is_it = |agent: &Rc<Agent>| agent.is_navigators.get() && agent.is_in(context.realm());
    agents(context).into_iter().find(is_it)
}

/// # Errors
///
/// The agent belongs to another context.
pub(crate) fn check(agent: &Rc<Agent>, context: &Context) -> JsResult<()> {
    let is_its = |homes: &Homes| homes.0.borrow().homes.iter().any(|home| agent.is_at(home));
    if context.get_data::<Homes>().is_some_and(is_its) {
        return Ok(());
    }
    Err(JsNativeError::typ().with_message("these locks are those of another context").into())
}

fn kept(context: &mut Context) -> Rc<RefCell<Kept>> {
    if !context.has_data::<Homes>() {
        context.insert_data(Homes::default());
    }
    context.get_data::<Homes>().map(|homes| Rc::clone(&homes.0)).unwrap_or_default()
}

impl Drop for Homes {
    fn drop(&mut self) {
        let Kept { homes, agents } = self.0.take();
        // They end at one moment, so that none of them is granted what another held.
        host::terminate_all(agents.iter().map(|agent| agent.requests.locks()));
        for agent in &agents {
            agent.leave();
        }
        drop((agents, homes));
    }
}

#[cfg(test)]
mod tests {
    use navlock::UserAgent;

    use super::*;
    use crate::LocksExtension;

    #[test]
    fn a_context_keeps_no_agents_of_which_nothing_is_left() {
        let context = &mut Context::default();
        let user_agent = UserAgent::new();
        let open = |context: &mut Context| {
            LocksExtension::new(user_agent.lock_manager("app")).open(None, context).unwrap()
        };
        LocksExtension::default().register(None, context).unwrap().end();
        let stays = open(context);
        for _ in 0..100 {
            open(context).end();
        }
        assert!(agents(context).len() <= 4, "{} agents are kept", agents(context).len());
        assert!(navigators(context).is_some() && !stays.has_ended());
        assert_eq!(crate::Locks::all(context).len(), 1);
    }
}
