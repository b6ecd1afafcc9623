//! The orders in which names can be shown.

/// The value by which names are ordered. The largest value comes first; if the names themselves are
/// the order, they are as in a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// First by the longest wait, then by the longest hold.
    Wait,
    Held,
    Queue,
    Rate,
    Mean,
    P99,
    Name,
}

impl Order {
    pub(super) fn next(self) -> Self {
        let all =
            [Self::Wait, Self::Held, Self::Queue, Self::Rate, Self::Mean, Self::P99, Self::Name];
        all[(self as usize + 1) % all.len()]
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Wait => "longest wait",
            Self::Held => "held longest",
            Self::Queue => "longest queue",
            Self::Rate => "grants a second",
            Self::Mean => "mean wait",
            Self::P99 => "99 % of waits",
            Self::Name => "name",
        }
    }
}
