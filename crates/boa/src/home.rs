//! The part of a context that agents use: one of its realms, with the interfaces that are defined there.

use boa_engine::{JsObject, realm::Realm};

use crate::dom::Dom;

/// A realm of Boa in which the interfaces are defined.
///
/// All of the fields keep objects alive, and with them the realm. So a home lives in the context, and not in
/// what a host may keep for longer.
pub(crate) struct Home {
    pub(crate) realm: Realm,
    pub(crate) dom: Dom,
    pub(crate) lock: JsObject,
    pub(crate) lock_manager: JsObject,
    /// `Promise.prototype.then`, as the language has it.
    pub(crate) then: JsObject,
}
