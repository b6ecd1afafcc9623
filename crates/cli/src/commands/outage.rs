//! Warning a holder before its lock is lost: what keeps the lock does not answer.

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use navlock::{LockManager, ResourceName};

use crate::{exit::mention, text::quoted_name, time::elapsed};

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(250);

/// Warns until it is dropped. It is for people: where it cannot be had, nothing is missing.
pub(super) struct Outage {
    /// The thread, and what has it end.
    watching: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Outage {
    /// For an agent that holds these; `None` if nothing that it has ends by itself.
    pub(super) fn watch(locks: &LockManager, names: &[ResourceName]) -> Option<Self> {
        locks.term()?;
        let (locks, whose) = (locks.clone(), whose(names));
        let (ends, has_ended) = channel();
        let watch = move || {
            let mut is_told = false;
            while has_ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let suspended = locks.term().and_then(|term| term.suspended());
                let said = match suspended {
                    // It is lost, which is told otherwise.
                    Some((_, Duration::ZERO)) => continue,
                    Some((silent, left)) if !is_told => warning(silent, left, &whose),
                    None if is_told && locks.term().is_some() => {
                        "navlock: etcd answers again\n".to_owned()
                    }
                    _ => continue,
                };
                is_told = suspended.is_some();
                mention(said.as_bytes());
            }
        };
        let thread = thread::Builder::new().name("navlock-outage".to_owned()).spawn(watch).ok()?;
        Some(Self { watching: Some((ends, thread)) })
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.watching.take() {
            drop(ends);
            // It has a handle of the agent, which is not to end later than we think.
            let _ = thread.join();
        }
    }
}

/// `navlock: etcd has not answered for 4s; "db" is yours for 5s more`
fn warning(silent: Duration, left: Duration, whose: &str) -> String {
    format!(
        "navlock: etcd has not answered for {}; {whose} yours for {} more\n",
        elapsed(silent),
        elapsed(left)
    )
}

fn whose(names: &[ResourceName]) -> String {
    match names {
        [name] => format!("{} is", quoted_name(name)),
        _ => format!("{} locks are", names.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_how_long_there_is_left() {
        let names: Vec<ResourceName> = ["a", "b"].map(|name| name.try_into().unwrap()).into();
        let said = |names| warning(Duration::from_secs(4), Duration::from_secs(65), &whose(names));
        assert_eq!(
            said(&names[..1]),
            "navlock: etcd has not answered for 4s; \"a\" is yours for 1m05s more\n"
        );
        assert!(said(&names).contains("; 2 locks are yours for"), "{}", said(&names));
    }
}
