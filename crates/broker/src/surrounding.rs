//! The locks inside which this process runs.

use std::{env, iter, sync::OnceLock};

use navlock_core::{ClientId, Inspected, look::LockId};
use navlock_platform::process::{self, Handle};

use crate::this_process::this_process;

/// The variable in which `navlock run` names to its command the locks inside which the command runs, the
/// outermost lock first.
pub const VARIABLE: &str = "NAVLOCK_INSIDE";

/// What the variable says of a process for which nobody waits.
const APART: &str = "none";

/// How many of these locks the variable names at most, and how many are read from it at most. If
/// there are more locks, the innermost ones are used.
const MOST: usize = 16;

/// The locks inside which this process was started, as `navlock run` has named them in the variable.
/// All requests of this process are made inside these locks too. No decision on a lock depends on
/// these locks.
pub fn surrounding() -> &'static [LockId] {
    static SURROUNDING: OnceLock<Vec<LockId>> = OnceLock::new();
    SURROUNDING.get_or_init(|| {
        // A word that is no id was not written by navlock, and is ignored.
        parse(&env::var(VARIABLE).unwrap_or_default())
    })
}

/// Whether this process runs inside this lock: `navlock run` or `navlock hold` keeps the lock for a process that
/// has started this one, directly or through others. The variable says so, or the system does where somebody
/// has taken the variable away.
pub fn is_around(held: &Inspected) -> bool {
    let Some(agent) = held.agent.as_deref().filter(|agent| agent.keeper != 0) else { return false };
    let is_named = surrounding().iter().any(|lock| lock.client_id == held.lock.client_id);
    let own = std::process::id();
    let lives = |keeper: Handle| !keeper.has_ended();
    // The number of a process means something where its keeper is a navlock that lives, or itself. A navlock is
    // its own keeper until it has told of its command, which may have begun.
    let is_kept = || {
        process::name(agent.keeper) == process::name(own)
            && Handle::open(agent.keeper).is_ok_and(lives)
            || agent.keeper == agent.pid && runs_under(agent.pid, held.lock.client_id)
    };
    let is_here = || agent.host == this_process().host && is_kept();
    // The command itself may have become this program.
    let mut numbers = iter::once(own).chain(ancestors(own));
    let is_apart = env::var(VARIABLE).is_ok_and(|value| value == APART);
    is_named || !is_apart && is_here() && numbers.any(|number| number == agent.pid)
}

/// Whether the process was started inside a lock of this client, by what its variable says.
pub fn runs_under(number: u32, client_id: ClientId) -> bool {
    let locks = process::variable(number, VARIABLE).unwrap_or_default();
    locks
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .any(|lock: LockId| lock.client_id == client_id)
}

/// The processes that are taken to wait for this one: its parent, the parent of that, and so on, as far as it can
/// be seen. Nobody waits for a process whose variable says so, as one that a script leaves in the background.
pub(crate) fn ancestors(number: u32) -> impl Iterator<Item = u32> {
    let parent = |number: &u32| {
        let is_apart = process::variable(*number, VARIABLE).is_some_and(|value| value == APART);
        if is_apart { None } else { process::seen(*number).map(|seen| seen.parent) }
    };
    // Numbers are used again, so there may be a circle.
    iter::successors(parent(&number), parent).take_while(|number| *number > 1).take(64)
}

/// The value of the variable for a process that is started inside `locks`. The value names the locks
/// inside which this process runs, followed by `locks`.
///
/// ```no_run
/// use std::process::Command;
///
/// # use navlock::{INSIDE_VARIABLE, told_to_command};
/// # let locks = navlock::UserAgent::new().lock_manager("my-app");
/// let guard = locks.lock("db").blocking()?;
/// let inside = told_to_command([guard.id()]);
/// // What the command requests is known to be requested inside "db".
/// Command::new("backup").env(INSIDE_VARIABLE, inside).status()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn told_to_command(locks: impl IntoIterator<Item = LockId>) -> String {
    written(surrounding().iter().copied().chain(locks).collect())
}

fn parse(text: &str) -> Vec<LockId> {
    let mut locks: Vec<_> = text.split_whitespace().filter_map(|id| id.parse().ok()).collect();
    let most = locks.len().min(MOST);
    locks.split_off(locks.len() - most)
}

fn written(mut locks: Vec<LockId>) -> String {
    let most = locks.len().min(MOST);
    let ids = locks.split_off(locks.len() - most);
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrounding_locks_told_to_a_command_are_read_again_and_other_words_are_skipped() {
        let client_id = ClientId::random();
        let locks: Vec<_> = (0..20).map(|serial| LockId { client_id, serial }).collect();
        let text = written(locks.clone());
        assert_eq!(parse(&text), locks[4..]);
        assert_eq!(parse(&format!(" nonsense\t{text} x/1 \n")), locks[4..]);
        assert_eq!(parse(""), []);
        assert_eq!(written(Vec::new()), "");
    }
}
