//! What core and wire each have a type for.

use navlock_core::AgentInfo;

pub(crate) fn to_wire(info: &AgentInfo) -> navlock_wire::AgentInfo {
    let AgentInfo { pid, command, user, host, why, .. } = info.clone();
    navlock_wire::AgentInfo { pid, command, user, host, why }
}

pub(crate) fn from_wire(form: navlock_wire::AgentInfo) -> AgentInfo {
    let navlock_wire::AgentInfo { pid, command, user, host, why } = form;
    let mut info = AgentInfo::default();
    (info.pid, info.command, info.user, info.host, info.why) = (pid, command, user, host, why);
    info
}
