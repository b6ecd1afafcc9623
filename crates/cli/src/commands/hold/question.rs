//! Questions and answers over the socket of a hold. Each is a line of JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A question to the keeper of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Question {
    Release,
    /// Extends the hold to this time from now, or to the time with which the hold began.
    Extend(Option<Duration>),
}

/// The keeper's answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Answer {
    Released,
    /// The hold ends after this time.
    Extended(Duration),
    /// A lock of the hold was lost: which one, and how.
    Lost(String),
    Refused(String),
}

/// A question or an answer as a line.
pub(super) fn line(said: &impl Serialize) -> String {
    // Texts and times can always be written.
    serde_json::to_string(said).unwrap_or_default() + "\n"
}

/// What is said in a whole line.
pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_understood_as_they_were_meant() {
        let time = Duration::from_millis(1500);
        for question in [Question::Release, Question::Extend(None), Question::Extend(Some(time))] {
            assert_eq!(parse(line(&question).as_bytes()), Some(question));
        }
        for wrong in ["", "\"Release\"", "\"Other\"\n", "\"Release\"\n\"Release\"\n"] {
            assert_eq!(parse::<Question>(wrong.as_bytes()), None, "{wrong}");
        }
        for answer in [
            Answer::Released,
            Answer::Extended(time),
            Answer::Lost("\"a\nb\": it was stolen".to_owned()),
            Answer::Refused("no".to_owned()),
        ] {
            let line = line(&answer);
            assert_eq!((line.lines().count(), parse(line.as_bytes())), (1, Some(answer)));
        }
        assert_eq!(parse::<Answer>(b""), None);
    }
}
