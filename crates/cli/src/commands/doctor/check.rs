//! One thing that `navlock doctor` has checked, and how the result is shown.

use std::{borrow::Cow, fmt::Display};

use anstyle::Style;

use crate::{
    json::{IfKnown, Object},
    terminal::painted,
    text::printable,
    text_table::{BAD, GOOD, POOR},
};

/// The state of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Ok,
    Warn,
    Fail,
}

impl Level {
    /// The level in a word, and the style of the word.
    fn word(self) -> (&'static str, Style) {
        match self {
            Self::Ok => ("ok", GOOD),
            Self::Warn => ("warn", POOR),
            Self::Fail => ("fail", BAD),
        }
    }
}

/// One thing that was checked.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) level: Level,
    what: Cow<'static, str>,
    pub(super) detail: String,
    /// What to do about it.
    remedy: Option<String>,
}

impl Check {
    pub(super) fn new(
        level: Level,
        what: impl Into<Cow<'static, str>>,
        detail: impl Display,
    ) -> Self {
        Self { level, what: what.into(), detail: detail.to_string(), remedy: None }
    }

    pub(super) fn ok(what: impl Into<Cow<'static, str>>, detail: impl Display) -> Self {
        Self::new(Level::Ok, what, detail)
    }

    pub(super) fn warn(what: impl Into<Cow<'static, str>>, detail: impl Display) -> Self {
        Self::new(Level::Warn, what, detail)
    }

    pub(super) fn fail(what: impl Into<Cow<'static, str>>, detail: impl Display) -> Self {
        Self::new(Level::Fail, what, detail)
    }

    pub(super) fn remedy(mut self, remedy: impl Display) -> Self {
        self.remedy = Some(remedy.to_string());
        self
    }

    pub(super) fn line(&self, colours: bool) -> String {
        let (word, style) = self.level.word();
        let remedy = self.remedy.as_ref().map_or_else(String::new, |remedy| format!("; {remedy}"));
        let said = printable(&format!("{}: {}{remedy}", self.what, self.detail));
        format!("{}  {said}", painted(&format!("{word:4}"), style, colours))
    }

    pub(super) fn object(&self) -> Object {
        Object::default()
            .string("level", self.level.word().0)
            .string("what", &self.what)
            .string("detail", &self.detail)
            .if_known(self.remedy.as_ref(), |it, remedy| it.string("remedy", remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_a_line() {
        let check = Check::warn("clock", "it is\n1970").remedy("set it");
        assert_eq!(check.line(false), r"warn  clock: it is\n1970; set it");
        assert_eq!(
            check.object().to_string(),
            r#"{"level":"warn","what":"clock","detail":"it is\n1970","remedy":"set it"}"#
        );
        assert!(check.line(true).starts_with("\u{1b}[33mwarn\u{1b}[0m  clock"));
    }
}
