//! The examples for shells in the README and the book. Each runs as it stands there. The programs that a
//! reader has are replaced by programs that say under which lock they were run.

pub(crate) mod console;

use std::{fs, os::unix::fs::symlink, path::Path, process::Stdio};

use crate::sandbox::{NAVLOCK, Output, Sandbox, finish};

/// What the examples run.
const PROGRAMS: [&str; 6] = ["convert", "make", "publish", "serve", "sync-mail", "transfer"];

/// A program that says what was run, under which names and in which mode.
const SAY: &str = "\
names=$(printf %s \"$NAVLOCK_NAME\" | tr '\\n' ,)
modes=$(printf %s \"$NAVLOCK_MODE\" | tr '\\n' ,)
printf '%s\\n' \"$(basename \"$0\") $* [$names $modes]\" >>\"$RAN\"
";

/// Makes a program. Another process writes it: if this process wrote it, a program that another test starts
/// at that moment would have it open for writing.
pub(crate) fn script(sandbox: &Sandbox, name: &str, text: &str) {
    let text = format!("#!/bin/sh\n{text}");
    let mut make = sandbox.program("sh");
    make.args(["-c", "printf %s \"$1\" >\"$2\" && chmod +x \"$2\"", "sh", &text, name]);
    assert!(finish(make.spawn().unwrap()).status.success(), "{name}");
}

/// The examples of a page in this language, each with the heading above it.
fn examples(page: &str, language: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (mut heading, mut examples) = (String::new(), Vec::new());
    // Prose and code take turns.
    for (nth, part) in text.split("```").enumerate() {
        if nth % 2 == 0 {
            let last = part.lines().rfind(|line| line.starts_with('#'));
            heading = last.map_or(heading, |line| line.trim_start_matches('#').trim().to_owned());
        } else if let Some((_, code)) = part.split_once('\n').filter(|(of, _)| *of == language) {
            examples.push((heading.clone(), code.to_owned()));
        }
    }
    assert!(!examples.is_empty(), "{page} has examples for {language}");
    examples
}

/// The examples under this heading of the recipes, as one script.
fn recipe(heading: &str) -> String {
    let all = examples("docs/recipes.md", "sh").into_iter();
    let all: String = all.filter(|(of, _)| of == heading).map(|(_, code)| code).collect();
    assert!(!all.is_empty(), "docs/recipes.md has a recipe {heading:?}");
    all
}

/// A sandbox with the programs of the examples in its `PATH`.
pub(crate) fn sandbox_with_programs() -> Sandbox {
    let sandbox = Sandbox::new();
    symlink(NAVLOCK, sandbox.path("navlock")).unwrap();
    for program in PROGRAMS {
        script(&sandbox, program, SAY);
    }
    sandbox
}

/// How the script ended, and what it has run.
fn run_script(sandbox: &Sandbox, code: &str) -> (Output, Vec<String>) {
    let ran = sandbox.path("ran");
    let mut shell = sandbox.program("sh");
    shell.args(["-c", code]).env("RAN", &ran);
    shell.env("PATH", format!("{}:/usr/bin:/bin", sandbox.path("").display()));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(shell.spawn().unwrap());
    let lines = fs::read_to_string(&ran).unwrap_or_default();
    (output, lines.lines().map(str::to_owned).collect())
}

#[test]
fn the_examples_for_shells_run() {
    for page in ["README.md", "docs/command.md", "docs/recipes.md"] {
        for (heading, code) in examples(page, "sh") {
            let (output, ran) = run_script(&sandbox_with_programs(), &code);
            assert!(output.status.success(), "{page}, {heading}: {output:?}\n{code}");
            assert!(!ran.is_empty(), "{page}, {heading}: nothing was run by\n{code}");
        }
    }
}

#[test]
fn each_recipe_runs_what_it_is_about_under_its_lock() {
    let build =
        |sandbox: &Sandbox| fs::canonicalize(sandbox.path("")).unwrap().display().to_string();
    let recipes: [(&str, &[&str]); 7] = [
        ("One at a time in CI", &["make build [ ]", "make deploy [deploy exclusive]"]),
        ("Leader election", &["serve  [leader exclusive]"]),
        ("Migrations", &["make migrate [schema exclusive]", "serve  [schema shared]"]),
        ("Test databases", &["make test DB=test-1 [test-1 exclusive]"]),
        ("Build folders", &["make  [build HERE exclusive]", "make package [build HERE shared]"]),
        ("cron", &["sync-mail  [sync exclusive]", "sync-mail  [sync exclusive]"]),
        (
            "Several names",
            &[
                "transfer 7 4 [account-7,account-4 exclusive]",
                "convert 7 [rates,account-7 shared,exclusive]",
            ],
        ),
    ];
    for (heading, expected) in recipes {
        let sandbox = sandbox_with_programs();
        let (output, ran) = run_script(&sandbox, &recipe(heading));
        assert!(output.status.success(), "{heading}: {output:?}");
        let here = build(&sandbox);
        let ran: Vec<_> = ran.iter().map(|line| line.replace(&here, "HERE")).collect();
        assert_eq!(ran, expected, "{heading}");
    }
}

#[test]
fn a_test_run_takes_the_first_free_database_and_ends_as_the_tests_do() {
    let sandbox = sandbox_with_programs();
    let other = sandbox.hold(&["test-1"]);
    let (output, ran) = run_script(&sandbox, &recipe("Test databases"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(ran, ["make test DB=test-2 [test-2 exclusive]"]);
    other.release();
    script(&sandbox, "make", "exit 7");
    let (output, _) = run_script(&sandbox, &recipe("Test databases"));
    assert_eq!(output.code(), Some(7));
}

#[test]
fn a_cron_job_is_skipped_while_the_last_one_runs_or_takes_its_place() {
    let sandbox = sandbox_with_programs();
    let mut last = sandbox.hold(&["sync"]);
    let (output, ran) = run_script(&sandbox, &recipe("cron"));
    assert!(
        output.status.success() && ran == ["sync-mail  [sync exclusive]"],
        "{output:?}, {ran:?}"
    );
    last.ended();
}

#[test]
fn a_resource_is_told_the_fencing_token() {
    let sandbox = sandbox_with_programs();
    script(
        &sandbox,
        "publish",
        "[ \"$1\" = --fence ] && [ \"$2\" -gt 0 ] && echo published >>\"$RAN\"",
    );
    let (output, ran) = run_script(&sandbox, &recipe("A resource that refuses late writers"));
    assert!(output.status.success() && ran == ["published"], "{output:?}, {ran:?}");
}
