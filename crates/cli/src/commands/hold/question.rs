//! Questions and answers over the socket of a hold. Each is a line.

use std::time::Duration;

use crate::text::printable;

/// A question to the keeper of a hold, in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Release,
    /// Extends the hold to this time from now, or to the time with which the hold began.
    Extend(Option<Duration>),
}

/// The keeper's answer, in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Released,
    /// The hold ends after this time.
    Extended(Duration),
    /// A lock of the hold was lost: which one, and how.
    Lost(String),
    Refused(String),
}

impl Question {
    pub(super) fn line(self) -> String {
        match self {
            Self::Release => "release\n".to_owned(),
            Self::Extend(None) => "extend\n".to_owned(),
            Self::Extend(Some(time)) => format!("extend {}\n", time.as_secs_f64()),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        match line.strip_suffix('\n')?.split_once(' ') {
            None if line == "release\n" => Some(Self::Release),
            None if line == "extend\n" => Some(Self::Extend(None)),
            Some(("extend", time)) => Some(Self::Extend(Some(seconds(time)?))),
            _ => None,
        }
    }
}

impl Answer {
    pub(super) fn line(&self) -> String {
        match self {
            Self::Released => "released\n".to_owned(),
            Self::Extended(left) => format!("extended {}\n", left.as_secs_f64()),
            Self::Lost(what) => format!("lost {}\n", printable(what)),
            Self::Refused(why) => format!("refused {}\n", printable(why)),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        match line.split_once(' ').unwrap_or((line, "")) {
            ("released", _) => Some(Self::Released),
            ("extended", left) => Some(Self::Extended(seconds(left)?)),
            ("lost", what) => Some(Self::Lost(what.to_owned())),
            ("refused", why) => Some(Self::Refused(why.to_owned())),
            _ => None,
        }
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_understood_as_they_were_meant() {
        let time = Duration::from_millis(1500);
        for question in [Question::Release, Question::Extend(None), Question::Extend(Some(time))] {
            assert_eq!(Question::parse(&question.line()), Some(question));
        }
        for wrong in ["", "release", "extend x\n", "release\nrelease\n", "extend -1\n"] {
            assert_eq!(Question::parse(wrong), None, "{wrong}");
        }
        for answer in [
            Answer::Released,
            Answer::Extended(time),
            Answer::Lost("\"a b\": it was stolen".to_owned()),
            Answer::Refused("no".to_owned()),
        ] {
            assert_eq!(Answer::parse(&answer.line()), Some(answer));
        }
        assert_eq!(Answer::parse(""), None);
    }
}
