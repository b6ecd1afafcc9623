//! A copy of the sources, in a folder where they may be broken.

use std::{
    collections::HashSet,
    fmt,
    fs::{self, File},
    io, iter,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::rules::Rule;
use crate::run::{Result, root};

/// How long a test may run on unbroken sources.
pub(super) const LONGEST: Duration = Duration::from_secs(900);

/// How long a test may run on broken sources, where it may wait for what never comes. `took` is the time that
/// it took on unbroken sources. The limit is generous, because other copies build meanwhile.
pub(super) fn timeout(took: Duration) -> Duration {
    (took * 10).clamp(Duration::from_secs(120), LONGEST)
}

/// How the tests ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    DidNotCompile,
    NeverEnded,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::DidNotCompile => "did not compile",
            Self::NeverEnded => "never ended",
        })
    }
}

/// Why an entry was not tried.
pub(super) enum Problem {
    /// This entry cannot be tried.
    Entry(String),
    /// No entry can be tried in this copy.
    Copy(String),
}

pub(super) struct Copy(PathBuf);

impl Copy {
    /// Copies the sources as they are into `folder`. What earlier runs have built there stays.
    pub(super) fn of_the_sources(folder: PathBuf) -> Result<Self> {
        let copy = Self(folder);
        let files = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(root())
            .output()
            .map_err(|error| format!("cannot ask git for the files: {error}"))?;
        if !files.status.success() {
            let why = String::from_utf8_lossy(&files.stderr);
            return Err(format!("cannot ask git for the files: {}", why.trim()));
        }
        let files = String::from_utf8_lossy(&files.stdout);
        let mut present = HashSet::new();
        for file in files.split_terminator('\0').map(Path::new) {
            let taken = copy.take(file);
            if taken.map_err(|error| format!("cannot copy {}: {error}", file.display()))? {
                present.insert(copy.0.join(file));
            }
        }
        let pruned = prune(&copy.0, &present);
        pruned.map_err(|error| format!("{}: {error}", copy.0.display()))?;
        Ok(copy)
    }

    /// Copies one file, unless the copy has the same, so that only what changed is built again. Returns
    /// whether the file exists: git also lists files that have just been removed from the work tree.
    fn take(&self, file: &Path) -> io::Result<bool> {
        let (from, to) = (root().join(file), self.0.join(file));
        let Ok(content) = fs::read(from) else { return Ok(false) };
        if fs::read(&to).is_ok_and(|present| present == content) {
            return Ok(true);
        }
        fs::create_dir_all(to.parent().expect("a file is in a folder"))?;
        fs::write(to, content)?;
        Ok(true)
    }

    /// Breaks the rule, and runs its tests. Afterwards the copy is whole again.
    pub(super) fn broken(
        &self,
        rule: &Rule,
        timeout: Duration,
        log: &Path,
    ) -> std::result::Result<Outcome, Problem> {
        let path = self.0.join(&rule.file);
        let at = |error| format!("{}: {}: {error}", rule.id, rule.file.display());
        let code = fs::read_to_string(&path).map_err(|error| Problem::Entry(at(error)))?;
        let places = code.matches(&rule.find).count();
        if places != 1 {
            let file = rule.file.display();
            return Err(Problem::Entry(format!(
                "`find` stands {places} times in {file}, not once"
            )));
        }
        let written = fs::write(&path, code.replace(&rule.find, &rule.replace));
        let outcome = written.map_err(at).and_then(|()| self.test(&rule.test, timeout, log));
        fs::write(&path, code).map_err(|error| Problem::Copy(at(error)))?;
        outcome.map_err(Problem::Copy)
    }

    /// Runs tests of the copy as it is. What they print goes to the file `log`.
    pub(super) fn test(&self, test: &str, timeout: Duration, log: &Path) -> Result<Outcome> {
        let printed = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let shown = if in_browser(test) { format!("xtask {test}") } else { format!("test {test}") };
        let cannot = |error| format!("cannot run `cargo {shown}`: {error}");
        let cargo = |arguments: &[&str]| -> io::Result<Command> {
            let mut command = Command::new("cargo");
            if in_browser(test) {
                command.arg("xtask");
                // wasm-bindgen is no part of the sources: the one of this checkout serves.
                let paths = std::env::var_os("PATH").unwrap_or_default();
                let tools = iter::once(root().join("target/browser/tools/bin"));
                let paths = std::env::join_paths(tools.chain(std::env::split_paths(&paths)));
                command.env("PATH", paths.map_err(io::Error::other)?);
            } else {
                command.args(["test", "--quiet"]);
            }
            command.args(test.split_whitespace()).args(arguments);
            command.current_dir(&self.0).env("CARGO_TARGET_DIR", self.0.join("target"));
            // Most of the time goes into building, so build what is quick to build. A crate to
            // which Cargo.toml gives a level of its own keeps that level.
            for profile in ["DEV", "TEST"] {
                command.env(format!("CARGO_PROFILE_{profile}_OPT_LEVEL"), "0");
                command.env(format!("CARGO_PROFILE_{profile}_DEBUG"), "0");
            }
            if test.contains("--test shuttle") {
                command.env("RUSTFLAGS", "--cfg shuttle");
                command.env("CARGO_TARGET_DIR", self.0.join("target/shuttle"));
            }
            command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(printed.try_clone()?);
            Ok(command)
        };
        let build = || cargo(&["--no-run"])?.status();
        if !build().map_err(cannot)?.success() {
            return Ok(Outcome::DidNotCompile);
        }
        let start = || cargo(&[])?.process_group(0).spawn();
        let mut tests = start().map_err(cannot)?;
        let deadline = Instant::now() + timeout;
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

/// Whether these are tests of a page, which `cargo xtask browser` runs.
fn in_browser(test: &str) -> bool {
    test.starts_with("browser ")
}

/// Removes files that are no longer sources: cargo would build every test that it finds in `tests`.
fn prune(folder: &Path, present: &HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                prune(&path, present)?;
            }
        } else if !present.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
