//! Why the settings cannot be used: what is wrong, with what, and what to do.

use std::fmt::Display;

use navlock::Refusal;

/// What is wrong with a value from here: an option, a variable or a file.
pub(super) fn of_value(origin: impl Display, what: impl Display) -> Refusal {
    Refusal::new(format!("{origin}: {what}"))
}
