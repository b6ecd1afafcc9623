//! The version of the protocol.

/// The version of the protocol, which is what this crate's clients and daemon speak.
pub const VERSION: u16 = 1;

/// The version to speak with a client that speaks `oldest` to `newest`, if this crate speaks one of
/// these.
pub fn negotiate(oldest: u16, newest: u16) -> Option<u16> {
    (oldest..=newest).contains(&VERSION).then_some(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_of_the_future_is_spoken_to_if_it_remembers_us() {
        assert_eq!(negotiate(VERSION, VERSION), Some(VERSION));
        assert_eq!(negotiate(0, VERSION), Some(VERSION));
        assert_eq!(negotiate(VERSION, u16::MAX), Some(VERSION));
        assert_eq!(negotiate(VERSION + 1, u16::MAX), None);
        assert_eq!(negotiate(0, VERSION - 1), None);
    }

    #[test]
    fn nothing_is_agreed_on_with_a_range_that_holds_nothing() {
        for (oldest, newest) in [(2, 1), (1, 0), (VERSION + 1, VERSION), (u16::MAX, 0)] {
            assert_eq!(negotiate(oldest, newest), None, "{oldest} to {newest}");
        }
    }
}
