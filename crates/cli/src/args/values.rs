//! What values of options mean.

use std::time::Duration;

use navlock::{ReservedName, ResourceName};

pub(super) fn name(text: &str) -> Result<ResourceName, ReservedName> {
    ResourceName::try_from(text)
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "give a number of seconds that is not negative, as in 1.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_fractions_and_no_sign() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["-1", "NaN", "inf", "", "1s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
