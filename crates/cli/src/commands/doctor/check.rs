//! One thing that `navlock doctor` has checked, and how the result is shown.

use std::{borrow::Cow, fmt::Display};

use crate::{
    json::Object,
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
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
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
        let style = match self.level {
            Level::Ok => GOOD,
            Level::Warn => POOR,
            Level::Fail => BAD,
        };
        let mut said = format!("{}: {}", self.what, self.detail);
        if let Some(remedy) = &self.remedy {
            said.push_str("; ");
            said.push_str(remedy);
        }
        format!(
            "{}  {}",
            painted(&format!("{:4}", self.level.word()), style, colours),
            printable(&said)
        )
    }

    pub(super) fn object(&self) -> Object {
        let object = Object::default()
            .string("level", self.level.word())
            .string("what", &self.what)
            .string("detail", &self.detail);
        self.remedy.iter().fold(object, |object, remedy| object.string("remedy", remedy))
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
