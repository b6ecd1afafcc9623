//! What a program says that was built without something.

use navlock::Refusal;

/// The error for settings that name `what`, for which this program needs a feature.
pub(super) fn unable(origin: &str, what: &str, without: &str, feature: &str) -> Refusal {
    Refusal::new(format!(
        "{origin} names {what}, and this navlock was built without {without}; build it with \
         'cargo install --path crates/cli --features {feature}'"
    ))
}
