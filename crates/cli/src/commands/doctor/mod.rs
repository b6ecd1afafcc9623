//! `navlock doctor`: finds what is wrong with the set-up.

mod args;
mod broker;
mod bucket;
mod check;
mod environment;
#[cfg(feature = "etcd")]
mod etcd;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "etcd")]
mod releases;
mod settings;

use std::process::ExitCode;

use navlock::PlaceError;

pub(crate) use self::args::DoctorArgs;
use self::check::{Check, Level};
use super::Context;
use crate::{
    exit::{Failure, answer},
    terminal,
};

pub(super) fn doctor(
    context: &Context,
    unplaced: Option<&PlaceError>,
    args: &DoctorArgs,
) -> Result<ExitCode, Failure> {
    let mut checks = environment::checks();
    if let Some(error) = unplaced {
        checks.push(Check::fail("place", error));
    } else {
        checks.push(bucket::home(context));
        checks.extend(place::checks(&context.place));
        checks.extend(broker::checks(context));
    }
    checks.extend(settings::checks(context, args));
    let colours = terminal::colours(context.colour);
    let line = |check: &Check| {
        if args.json { check.object().to_string() } else { check.line(colours) }
    };
    let text: String = checks.iter().map(|check| line(check) + "\n").collect();
    answer(text)?;
    let fails = checks.iter().any(|check| check.level == Level::Fail);
    Ok(ExitCode::from(u8::from(fails)))
}
