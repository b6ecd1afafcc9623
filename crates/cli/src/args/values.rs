//! The parsers for the values of options.

use std::{ffi::OsStr, time::Duration};

use clap::builder::{OsStringValueParser, TypedValueParser};
use navlock::ResourceName;
use navlock_broker::MAX_TEXT;

use crate::text::{clipped, printable};

/// How much of a word is repeated in a message, in columns.
const LONGEST_WORD: usize = 60;

/// A name, as an option's value.
pub(crate) fn name() -> impl TypedValueParser<Value = ResourceName> {
    OsStringValueParser::new().try_map(|word| to_name(&word))
}

pub(crate) fn to_name(word: &OsStr) -> Result<ResourceName, String> {
    let text =
        word.to_str().ok_or_else(|| format!("{word:?} is not UTF-8, as a name has to be"))?;
    ResourceName::try_from(text).map_err(|reserved| format!("{text:?}: {reserved}"))
}

/// A time after which something ends.
pub(crate) fn time_above_zero(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time above 0, as in 90, 1.5, 90s, 1m30s or 2h".to_owned();
    time(text).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

/// A key and its value.
pub(crate) fn meta(text: &str) -> Result<(String, String), String> {
    let is_key =
        |key: &str| !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || c.is_control());
    let Some((key, is)) = text.split_once('=').filter(|(key, _)| is_key(key)) else {
        return Err("give a key and its value, as in url=http://localhost:3000".to_owned());
    };
    if key.len().max(is.len()) > MAX_TEXT {
        return Err(format!("a key and a value may have {MAX_TEXT} bytes each"));
    }
    Ok((key.to_owned(), is.to_owned()))
}

/// The id of a process.
pub(crate) fn process(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|&number: &i32| number > 0);
    number.map(i32::unsigned_abs).ok_or_else(|| "give the number of a process, as $$ is".to_owned())
}

/// A time, in seconds or with units.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time that is not negative, as in 90, 1.5, 90s, 1m30s or 2h".to_owned();
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| wrong()),
        Err(_) => humantime::parse_duration(text).map_err(|_| wrong()),
    }
}

/// A word as it would be typed into a shell.
pub(crate) fn spelled(word: &OsStr) -> String {
    let word = clipped(&printable(&word.to_string_lossy()), LONGEST_WORD);
    let is_plain = |char: char| char.is_alphanumeric() || "_-./:=@%+,…".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_have_what_a_key_may_not() {
        let meta = |text: &str| meta(text).map(|(key, is)| format!("{key}: {is}"));
        assert_eq!(meta("url=http://x/?a=b c").as_deref(), Ok("url: http://x/?a=b c"));
        assert_eq!(meta("k=").as_deref(), Ok("k: "));
        for wrong in ["", "url", "=x", "a b=c", "a\n=c"] {
            assert!(meta(wrong).is_err(), "{wrong}");
        }
        let long = "x".repeat(512);
        assert!(meta(&format!("{long}={long}")).is_ok());
        assert!(meta(&format!("a={long}x")).is_err());
    }

    #[test]
    fn a_time_has_units_or_is_in_seconds() {
        for (text, expected) in
            [("1.5", 1_500), ("90s", 90_000), ("1m30s", 90_000), ("2h", 7_200_000)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(expected)), "{text}");
        }
        for wrong in ["", "-1", "-1s", "NaN", "inf", "1x", "m"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
