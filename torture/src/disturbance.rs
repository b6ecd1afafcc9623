//! What disturbances of the store have at hand.

use crate::{dice::Dice, events::Events, history::History};

/// What a disturbance of the store is done with, and for how many microseconds.
pub(crate) struct With<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) during: u64,
    pub(crate) events: &'a Events,
    pub(crate) history: &'a mut History,
}
