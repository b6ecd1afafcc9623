//! Tells from fencing tokens whether anybody else may have held a name since this agent had it last.
//!
//! A token is greater than all earlier tokens of its bucket. So if two tokens follow one another directly, nothing
//! was granted between them, and if they do not, somebody may have held the name.

use std::{collections::HashMap, sync::Mutex};

use navlock::ResourceName;

use crate::own::lock;

/// For how many names the last token is remembered.
const MOST: usize = 1024;

/// The bits of a token in which a machine that owns a name counts its grants within a revision of the store.
const COUNTED: u64 = 0xf_ffff;

/// The tokens of an agent's last locks, by name.
#[derive(Debug, Default)]
pub(crate) struct LastTokens(Mutex<HashMap<ResourceName, u64>>);

impl LastTokens {
    /// Whether anybody else may have held this name since the last [`note`](Self::note) for it, which is forgotten.
    pub(crate) fn have_others_held(
        &self,
        name: &ResourceName,
        token: u64,
        is_leased: impl FnOnce() -> bool,
    ) -> bool {
        let last = lock(&self.0).remove(name);
        last.is_none_or(|last| !are_in_a_row(last, token, is_leased))
    }

    /// The lock with this token has ended, and its holder knows how it has left what the lock protects.
    pub(crate) fn note(&self, name: &ResourceName, token: u64) {
        let mut tokens = lock(&self.0);
        if tokens.len() >= MOST {
            tokens.clear();
        }
        tokens.insert(name.clone(), token);
    }
}

/// Whether nothing can have been granted between these two tokens.
fn are_in_a_row(last: u64, token: u64, is_leased: impl FnOnce() -> bool) -> bool {
    if last.checked_add(1) == Some(token) {
        return true;
    }
    let step = token.wrapping_sub(last);
    let is_first = step == COUNTED + 1 || step == COUNTED + 2;
    is_first && last & COUNTED == 0 && is_leased()
}
