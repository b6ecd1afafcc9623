//! `navlock doctor`: what is wrong with the set-up.

mod broker;
mod environment;
#[cfg(feature = "etcd")]
mod etcd;
mod place;
#[cfg(feature = "etcd")]
mod releases;
mod settings;

use std::{borrow::Cow, fmt::Display, process::ExitCode};

use navlock::PlaceError;

use super::Context;
use crate::{
    args::DoctorArgs,
    exit::Failure,
    json::Object,
    table::{BAD, GOOD, POOR},
    terminal::{self, painted, write_out},
    text::printable,
};

/// How it stands with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Check {
    level: Level,
    what: Cow<'static, str>,
    detail: String,
    /// What to do about it.
    remedy: Option<String>,
}

pub(super) fn doctor(
    context: &Context,
    unplaced: Option<&PlaceError>,
    args: &DoctorArgs,
) -> Result<ExitCode, Failure> {
    let mut checks = environment::checks();
    if let Some(error) = unplaced {
        checks.push(Check::fail("place", error));
    } else {
        checks.extend(place::checks(&context.place));
        checks.extend(broker::checks(context));
    }
    checks.extend(settings::checks(context, args));
    let colours = terminal::colours(context.colour);
    let line = |check: &Check| {
        if args.json { check.object().to_string() } else { check.line(colours) }
    };
    let text: String = checks.iter().map(|check| line(check) + "\n").collect();
    write_out(text.as_bytes()).map_err(|error| Failure::of_writing(&error))?;
    let fails = checks.iter().any(|check| check.level == Level::Fail);
    Ok(ExitCode::from(u8::from(fails)))
}

impl Check {
    fn new(level: Level, what: impl Into<Cow<'static, str>>, detail: impl Display) -> Self {
        Self { level, what: what.into(), detail: detail.to_string(), remedy: None }
    }

    fn ok(what: impl Into<Cow<'static, str>>, detail: impl Display) -> Self {
        Self::new(Level::Ok, what, detail)
    }

    fn warn(what: impl Into<Cow<'static, str>>, detail: impl Display) -> Self {
        Self::new(Level::Warn, what, detail)
    }

    fn fail(what: impl Into<Cow<'static, str>>, detail: impl Display) -> Self {
        Self::new(Level::Fail, what, detail)
    }

    fn remedy(mut self, remedy: impl Display) -> Self {
        self.remedy = Some(remedy.to_string());
        self
    }

    fn line(&self, colours: bool) -> String {
        let (level, style) = match self.level {
            Level::Ok => ("ok  ", GOOD),
            Level::Warn => ("warn", POOR),
            Level::Fail => ("fail", BAD),
        };
        let mut said = format!("{}: {}", self.what, self.detail);
        if let Some(remedy) = &self.remedy {
            said.push_str("; ");
            said.push_str(remedy);
        }
        format!("{}  {}", painted(level, style, colours), printable(&said))
    }

    fn object(&self) -> Object {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        let object = Object::default().string("level", level).string("what", &self.what);
        let object = object.string("detail", &self.detail);
        match &self.remedy {
            Some(remedy) => object.string("remedy", remedy),
            None => object,
        }
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
