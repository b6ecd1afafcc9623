//! What the keeper of a hold tells the asker that has started it.

/// What the keeper says first, in one line: the length of the text that has to be written, or the
/// exit code with which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Held { length: usize },
    Failed { code: u8 },
}

impl Outcome {
    pub(super) fn line(self) -> String {
        match self {
            Self::Held { length } => format!("held {length}\n"),
            Self::Failed { code } => format!("failed {code}\n"),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        match line.trim_end().split_once(' ')? {
            ("held", length) => Some(Self::Held { length: length.parse().ok()? }),
            ("failed", code) => Some(Self::Failed { code: code.parse().ok()? }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_understood_as_it_was_meant() {
        for outcome in [Outcome::Held { length: 37 }, Outcome::Failed { code: 1 }] {
            assert_eq!(Outcome::parse(&outcome.line()), Some(outcome));
        }
        assert_eq!(Outcome::parse("held\n"), None);
    }
}
