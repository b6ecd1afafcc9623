//! What values of options mean.

use std::{ffi::OsStr, time::Duration};

use clap::builder::{OsStringValueParser, TypedValueParser};
use navlock::ResourceName;

/// A name, as an option's value.
pub(super) fn name() -> impl TypedValueParser<Value = ResourceName> {
    OsStringValueParser::new().try_map(|word| to_name(&word))
}

pub(super) fn to_name(word: &OsStr) -> Result<ResourceName, String> {
    let text =
        word.to_str().ok_or_else(|| format!("{word:?} is not UTF-8, as a name has to be"))?;
    ResourceName::try_from(text).map_err(|reserved| format!("{text:?}: {reserved}"))
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
