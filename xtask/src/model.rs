//! `cargo xtask model`.

use std::{num::NonZeroUsize, thread};

use crate::run::{Result, cargo, run, said};

const USAGE: &str = "\
usage: cargo xtask model [--minutes N] [NAME…]

  NAME         only the explorations whose names begin so: those of the searches in
               crates/machines/src/keeper/model.rs
  --minutes N  each for so long at most (to its end)";

/// The modules with the explorations, as they stand in the names of tests.
const MODULES: [&str; 4] =
    ["exhaustive::warm", "exhaustive::cold", "exhaustive_owned::warm", "exhaustive_owned::cold"];

/// Explores the model of the keeper, which the tests search at random. Each exploration visits all that
/// can happen; one that a limit of time ends has visited what is nearest to the beginning. As many
/// explorations run at once as there are CPUs.
pub(crate) fn model(arguments: &[&str]) -> Result {
    let Options { minutes, names } = Options::parse(arguments)?;
    let test = ["test", "--package", "navlock-machines", "--lib"];
    run(cargo(&test).arg("--no-run"))?;
    let found =
        said(cargo(&test).args(["--quiet", "--", "--ignored", "--list"]).args(filters(&names)))?;
    let count = found.lines().filter(|line| line.ends_with(": test")).count();
    if count == 0 {
        return Err(format!("no exploration's name begins with {}\n{USAGE}", names.join(" or ")));
    }
    let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let long = minutes.map_or("to its end".to_owned(), |of| format!("for at most {of} min"));
    println!("{count} explorations, each {long}, {cpus} at once");
    let mut explore = cargo(&test);
    explore.args(["--", "--ignored", "--nocapture"]).args(filters(&names));
    if let Some(minutes) = minutes {
        explore.env("NAVLOCK_MODEL_MINUTES", minutes.to_string());
    }
    run(&mut explore)
}

/// The filters for libtest, which runs a test if its name contains one of them.
fn filters(names: &[&str]) -> Vec<String> {
    let names = if names.is_empty() { &[""] } else { names };
    let all =
        names.iter().flat_map(|name| MODULES.map(|of| format!("keeper::model::{of}::{name}")));
    all.collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    minutes: Option<u64>,
    names: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a str]) -> Result<Self> {
        let mut options = Self { minutes: None, names: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(&argument) = arguments.next() {
            match argument {
                "--minutes" => {
                    let number = arguments.next();
                    let number =
                        number.ok_or_else(|| format!("--minutes needs a value\n{USAGE}"))?;
                    let minutes = number.parse().ok().filter(|&minutes| minutes > 0);
                    let wrong = || format!("--minutes {number}: not a positive number");
                    options.minutes = Some(minutes.ok_or_else(wrong)?);
                }
                _ if argument.starts_with('-') => {
                    return Err(format!("unknown option {argument}\n{USAGE}"));
                }
                name => options.names.push(name),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_the_scenes_and_the_time_and_a_wrong_option_is_named() {
        let parse = Options::parse;
        assert_eq!(parse(&[]), Ok(Options { minutes: None, names: vec![] }));
        let both = Ok(Options { minutes: Some(10), names: vec!["an_owner", "three"] });
        assert_eq!(parse(&["an_owner", "--minutes", "10", "three"]), both);
        for wrong in
            [&["--minutes"][..], &["--minutes", "0"], &["--minutes", "1.5"], &["--hours", "1"]]
        {
            let said = parse(wrong).expect_err("it is wrong");
            assert!(said.contains(wrong[0]), "{said}");
        }
    }
}
