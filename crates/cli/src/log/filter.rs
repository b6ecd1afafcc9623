//! Which events of a log are written: a level, and other levels for parts of the program.

use std::{fmt, str::FromStr};

use tracing_subscriber::filter::{LevelFilter, Targets};

/// All targets of this program begin like this; other targets are those of libraries.
const OURS: &str = "navlock";

/// The level that is used if none is given.
const DEFAULT: &str = "info";

/// A level for all targets of this program, and levels for single targets: `info`,
/// `warn,navlock::etcd=debug`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    text: String,
    targets: Targets,
}

impl Filter {
    pub(super) fn targets(&self) -> Targets {
        self.targets.clone()
    }
}

impl Default for Filter {
    fn default() -> Self {
        let targets = Targets::new().with_target(OURS, LevelFilter::INFO);
        Self { text: DEFAULT.to_owned(), targets }
    }
}

impl FromStr for Filter {
    type Err = String;

    /// An empty text counts as unset, as for any variable.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut targets = Targets::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (target, name) = part.split_once('=').unwrap_or((OURS, part));
            let (target, level) = (target.trim(), level(name.trim()));
            let Some(level) = level.filter(|_| !target.is_empty()) else {
                return Err(format!(
                    "{part:?} is no level: write off, error, warn, info, debug or trace, and \
                     TARGET=LEVEL after a comma for a part (navlock::broker, navlock::machines)"
                ));
            };
            targets = targets.with_target(target, level);
        }
        Ok(Self { text: text.trim().to_owned(), targets })
    }
}

/// The level of this name. The library also accepts numbers, but these are refused, because nobody
/// knows their meaning.
fn level(name: &str) -> Option<LevelFilter> {
    let is_word = name.chars().all(|char| char.is_ascii_alphabetic());
    name.parse().ok().filter(|_| is_word && !name.is_empty())
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn parsed(text: &str) -> Targets {
        text.parse::<Filter>().unwrap().targets()
    }

    #[test]
    fn a_level_is_that_of_ours_and_parts_have_their_own() {
        let both = parsed("warn, navlock::etcd=debug,h2=info");
        assert!(both.would_enable("navlock::broker", &Level::WARN));
        assert!(!both.would_enable("navlock::broker", &Level::INFO));
        assert!(both.would_enable("navlock::etcd", &Level::DEBUG));
        assert!(both.would_enable("h2::client", &Level::INFO));
        assert!(!both.would_enable("tonic", &Level::ERROR));
        assert!(!parsed("off").would_enable("navlock::broker", &Level::ERROR));
        assert_eq!(parsed(""), parsed(DEFAULT));
        assert_eq!("debug".parse::<Filter>().unwrap().to_string(), "debug");
    }

    #[test]
    fn a_wrong_level_is_refused() {
        for wrong in
            ["verbose", "navlock", "3", "navlock=loud", "=info", "navlock=", "info=info=info"]
        {
            let said = wrong.parse::<Filter>().unwrap_err();
            assert!(said.contains("write off, error, warn"), "{wrong}: {said}");
        }
    }
}
