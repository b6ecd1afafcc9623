//! The conformance suite of the npm package (`npm/navlock/test/suite`), with unchanged files, on
//! each engine: within a process, and through a broker. Further tests check which parts of the DOM
//! the scripts of each engine find, and how programs end.
//!
//! Each test of the suite has its own process and bucket. Its name here consists of the engine, the
//! reach, the file and the test's sentence. `cargo test -p navlock-js-run --test suite -- boa` runs
//! the tests of Boa. `npm/navlock/test/subjects/embedded.json` lists what an engine cannot show,
//! and which tests are expected to fail there. If such a test passes, this suite fails.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod broker;
mod program;

use std::{collections::BTreeMap, sync::Arc};

use libtest_mimic::{Arguments, Failed, Trial};
use serde::Deserialize;

use crate::{
    broker::Broker,
    program::{Outcome, Program, Untold},
};

/// How many times as long as in a browser a test may take. The engines are interpreters, are not
/// optimised here, and share the machine with other tests.
const SLOWDOWN: u32 = 12;

/// `embedded.json`
#[derive(Deserialize)]
struct Subjects {
    /// What the tests of the suite may need: see `npm/navlock/test/subjects/index.mjs`.
    offers: Vec<String>,
    boa: Subject,
    quickjs: Subject,
}

#[derive(Deserialize)]
struct Subject {
    /// The tests that are expected to fail, and why.
    expected: BTreeMap<String, String>,
}

/// A line of `embedded-test.mjs --list`.
#[derive(Deserialize)]
struct Listed {
    file: String,
    name: String,
    needs: Vec<String>,
    /// The deadline in milliseconds.
    deadline: u32,
}

fn main() {
    let arguments = Arguments::from_args();
    let subjects: Subjects =
        serde_json::from_str(include_str!("../../../../npm/navlock/test/subjects/embedded.json"))
            .unwrap();
    let mut trials = Vec::new();
    #[cfg(feature = "boa")]
    add("boa", &subjects.boa, &subjects.offers, &mut trials);
    #[cfg(feature = "quickjs")]
    add("quickjs", &subjects.quickjs, &subjects.offers, &mut trials);
    libtest_mimic::run(&arguments, trials).exit();
}

fn add(engine: &'static str, subject: &Subject, offers: &[String], trials: &mut Vec<Trial>) {
    let listed = list(engine);
    for name in subject.expected.keys() {
        assert!(listed.iter().any(|test| test.name == *name), "there is no test to fail: {name}");
    }
    let dom = move || check_each(engine, "crates/js-run/tests/dom.mjs", 30);
    trials.push(Trial::test(format!("{engine}: the DOM that scripts find"), dom));
    let jobs = move || check_each(engine, "crates/js-run/tests/jobs.mjs", 20);
    trials.push(Trial::test(
        format!("{engine}: what a callback returns is adopted job by job"),
        jobs,
    ));
    trials.push(Trial::test(format!("{engine}: the example that counts"), move || counts(engine)));
    let rejection =
        format!("{engine}: a program ends with a rejection that rejects more when it is shown");
    trials.push(Trial::test(rejection, move || ends_with_rejection(engine)));
    let died = format!("{engine}: a process that dies is no test that fails as expected");
    trials.push(Trial::test(died, move || judges(engine)));
    let broker = Arc::new(Broker::default());
    for reach in ["process", "machine"] {
        for Listed { file, name, needs, deadline } in &listed {
            let is_offered =
                |need: &String| offers.contains(need) || need == "processes" && reach == "machine";
            if !needs.iter().all(is_offered) {
                continue;
            }
            let job = serde_json::json!({
                "realm": "embedded", "test": name, "file": file, "slowdown": SLOWDOWN,
            });
            let deadline = deadline * SLOWDOWN;
            let (expected, broker) = (subject.expected.get(name).cloned(), Arc::clone(&broker));
            let run = move || {
                let mut program =
                    Program::new(engine, reach, "npm/navlock/test/host/embedded-test.mjs");
                if reach == "machine" {
                    program.with_broker(&broker);
                }
                judge(program.run(&[job.to_string()], deadline), expected.as_deref())
            };
            trials.push(Trial::test(format!("{engine}, {reach}: {file}: {name}"), run));
        }
    }
}

fn list(engine: &'static str) -> Vec<Listed> {
    let mut program = Program::new(engine, "process", "npm/navlock/test/host/embedded-test.mjs");
    let output = program.output(&["--list".to_owned()], 60_000).unwrap();
    let listed: Vec<Listed> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(listed.len() > 200, "the list of the suite is too short: {output}");
    listed
}

/// A line of a script that makes several checks.
#[derive(Deserialize)]
struct Checked {
    name: String,
    failure: Option<String>,
}

/// Runs a script that makes at least `least` checks.
fn check_each(engine: &str, script: &str, least: usize) -> Result<(), Failed> {
    let mut program = Program::new(engine, "process", script);
    let output = program.output(&[], 60_000)?;
    let told: Result<Vec<Checked>, _> = output.lines().map(serde_json::from_str).collect();
    let told = told.map_err(|error| format!("{error}: {output}"))?;
    let failed =
        told.iter().filter_map(|Checked { name, failure }| Some((name, failure.as_ref()?)));
    let failed: Vec<_> = failed.map(|(name, failure)| format!("{name}: {failure}")).collect();
    if told.len() < least {
        return Err(format!("only {} things were checked", told.len()).into());
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

fn counts(engine: &'static str) -> Result<(), Failed> {
    let mut program = Program::new(engine, "process", "crates/js-run/examples/counter.mjs");
    let output = program.output(&[], 60_000)?;
    let lines = output.lines().filter_map(|line| line.split_once(": ")).map(|(_, told)| told);
    let counts = (1..=5).map(|count| format!("{count} under counter"));
    let expected = std::iter::once("waiting".to_owned()).chain(counts).chain(["done".to_owned()]);
    if lines.eq(expected) { Ok(()) } else { Err(output.into()) }
}

fn ends_with_rejection(engine: &'static str) -> Result<(), Failed> {
    let mut program = Program::new(engine, "process", "crates/js-run/tests/rejection.mjs");
    let output = program.output(&[], 60_000)?;
    let is_told =
        output.contains("exit status: 1: navlock-js-run: a rejection that nobody handles");
    if is_told { Ok(()) } else { Err(output.into()) }
}

/// Whether the outcome is as expected. A process that hangs or dies is never as expected: a test
/// that is expected to fail must fail by its own assertion.
fn judge(told: Result<Outcome, Untold>, expected: Option<&str>) -> Result<(), Failed> {
    let outcome = told.map_err(|Untold(why)| why)?;
    match (outcome.passed, expected) {
        (true, None) | (false, Some(_)) => Ok(()),
        (false, None) => Err(outcome.reason.unwrap_or_default().into()),
        (true, Some(why)) => Err(format!("passes, though it is expected to fail: {why}").into()),
    }
}

/// Asserts that a test which is expected to fail does not pass if its process reports nothing.
fn judges(engine: &'static str) -> Result<(), Failed> {
    let mut program = Program::new(engine, "process", "crates/js-run/tests/rejection.mjs");
    match judge(program.run(&[], 60_000), Some("it is expected to fail")) {
        Err(_) => Ok(()),
        Ok(()) => Err("a process that died was taken for a test that fails".into()),
    }
}
