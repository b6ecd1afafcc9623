//! What this process says of itself.

use std::{env, sync::OnceLock};

use navlock_core::AgentInfo;

/// How much of a command line is shown.
const LONGEST_COMMAND: usize = 200;

/// What agents of this process say of themselves, unless they are told otherwise: its number, its
/// command line, its user, and the name of its machine.
pub fn this_process() -> AgentInfo {
    static THIS: OnceLock<AgentInfo> = OnceLock::new();
    let mut info = THIS.get_or_init(look).clone();
    // A fork has the rest from its parent.
    info.pid = std::process::id();
    info
}

fn look() -> AgentInfo {
    let mut info = AgentInfo::default();
    info.command = command();
    info.user = user();
    info.host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    info
}

fn command() -> String {
    let mut command = String::new();
    for argument in env::args_os() {
        if command.len() >= LONGEST_COMMAND {
            break;
        }
        if !command.is_empty() {
            command.push(' ');
        }
        command.push_str(&argument.to_string_lossy());
    }
    if let Some((end, _)) = command.char_indices().nth(LONGEST_COMMAND) {
        command.truncate(end);
    }
    command
}

/// The name that the environment gives, as it is only shown to people, else the number.
fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().find_map(|variable| env::var(variable).ok());
    let named = named.filter(|name| !name.is_empty());
    named.unwrap_or_else(|| format!("uid {}", crate::runtime_dir::uid()))
}
