//! `cargo xtask break-rules`: a check of the checks.
//!
//! A test that cannot fail shows nothing. For each entry of `xtask/rules.toml` this takes a copy
//! of the sources, breaks one rule in it by exchanging a piece of code, and runs the tests that
//! are said to show the rule: they must pass before and fail, or never end, after.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;

use crate::run::{Result, root};

/// How long a test that waits for what never comes may wait.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct Rules {
    rule: Vec<Rule>,
}

/// One way to break one rule.
#[derive(Deserialize)]
struct Rule {
    /// What it is called here and on the command line.
    id: String,
    /// The rules of SEMANTICS that it breaks, as CONFORMANCE.md numbers them.
    breaks: String,
    /// Where the code is.
    file: PathBuf,
    /// The code, which must stand there once.
    find: String,
    /// What takes its place.
    replace: String,
    /// The arguments of `cargo test` for the tests that must fail.
    test: String,
}

pub(crate) fn break_rules(ids: &[&str]) -> Result {
    let rules = read(&root().join("xtask/rules.toml"))?;
    if let Some(id) = ids.iter().find(|id| !rules.iter().any(|rule| rule.id == **id)) {
        return Err(format!("no rule in xtask/rules.toml has the id {id}"));
    }
    let rules: Vec<&Rule> =
        rules.iter().filter(|rule| ids.is_empty() || ids.contains(&&*rule.id)).collect();
    let copy = Copy::of_the_sources()?;
    let tests: BTreeSet<&str> = rules.iter().map(|rule| &*rule.test).collect();
    for test in tests {
        let outcome = copy.test(test)?;
        if outcome != Outcome::Passed {
            return Err(format!("`cargo test {test}` {outcome:?} before anything was broken"));
        }
    }
    let mut survived = Vec::new();
    for rule in &rules {
        let outcome = copy.broken(rule)?;
        println!("{:<44} rule {:<8} broken: {outcome:?}", rule.id, rule.breaks);
        if !matches!(outcome, Outcome::Failed | Outcome::NeverEnded) {
            survived.push(&*rule.id);
        }
    }
    println!("{} rules broken, {} unnoticed", rules.len(), survived.len());
    if survived.is_empty() { Ok(()) } else { Err(format!("unnoticed: {}", survived.join(", "))) }
}

fn read(path: &Path) -> Result<Vec<Rule>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules: Rules =
        toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(rules.rule)
}

/// What became of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    DidNotCompile,
    NeverEnded,
}

/// The sources, in a folder where they may be broken.
struct Copy(PathBuf);

impl Copy {
    fn of_the_sources() -> Result<Self> {
        let copy = Self(root().join("target/break-rules"));
        let files = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(root())
            .output()
            .map_err(|error| format!("cannot ask git for the files: {error}"))?;
        if !files.status.success() {
            let why = String::from_utf8_lossy(&files.stderr);
            return Err(format!("cannot ask git for the files: {}", why.trim()));
        }
        for file in String::from_utf8_lossy(&files.stdout).split_terminator('\0') {
            copy.take(Path::new(file)).map_err(|error| format!("cannot copy {file}: {error}"))?;
        }
        Ok(copy)
    }

    /// Copies one file, unless it is there already, so that only what changed is built again.
    fn take(&self, file: &Path) -> std::io::Result<()> {
        let (from, to) = (root().join(file), self.0.join(file));
        // Removed in the work tree, and git not told yet.
        let Ok(content) = fs::read(from) else { return Ok(()) };
        if fs::read(&to).is_ok_and(|present| present == content) {
            return Ok(());
        }
        fs::create_dir_all(to.parent().expect("a file is in a folder"))?;
        fs::write(to, content)
    }

    /// Breaks the rule, and sees what its tests say. The copy is whole again afterwards.
    fn broken(&self, rule: &Rule) -> Result<Outcome> {
        let path = self.0.join(&rule.file);
        let at = |error| format!("{}: {}: {error}", rule.id, rule.file.display());
        let code = fs::read_to_string(&path).map_err(at)?;
        let places = code.matches(&rule.find).count();
        if places != 1 {
            let file = rule.file.display();
            return Err(format!("{}: `find` stands {places} times in {file}, not once", rule.id));
        }
        fs::write(&path, code.replace(&rule.find, &rule.replace)).map_err(at)?;
        let outcome = self.test(&rule.test);
        fs::write(&path, code).map_err(at)?;
        outcome
    }

    fn test(&self, test: &str) -> Result<Outcome> {
        let cargo = |arguments: &[&str]| {
            let mut command = Command::new("cargo");
            command.args(["test", "--quiet"]).args(test.split_whitespace()).args(arguments);
            command.current_dir(&self.0).env("CARGO_TARGET_DIR", self.0.join("target"));
            // Most of the time goes into building, so build what is quick to build.
            command.env("CARGO_PROFILE_TEST_OPT_LEVEL", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
            if test.contains("--test shuttle") {
                command.env("RUSTFLAGS", "--cfg shuttle");
                command.env("CARGO_TARGET_DIR", self.0.join("target/shuttle"));
            }
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let cannot = |error| format!("cannot run `cargo test {test}`: {error}");
        if !cargo(&["--no-run"]).status().map_err(cannot)?.success() {
            return Ok(Outcome::DidNotCompile);
        }
        let mut tests = cargo(&[]).process_group(0).spawn().map_err(cannot)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = tests.try_wait().map_err(cannot)? {
                return Ok(if status.success() { Outcome::Passed } else { Outcome::Failed });
            }
            if Instant::now() > deadline {
                // The tests are cargo's children, in the process group that it was given.
                let group = format!("-{}", tests.id());
                Command::new("kill").args(["-KILL", "--", &group]).status().map_err(cannot)?;
                tests.wait().map_err(cannot)?;
                return Ok(Outcome::NeverEnded);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
