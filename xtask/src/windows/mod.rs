//! `cargo xtask windows`: builds navlock for Windows, and runs its tests there, by Wine.
//!
//! Rust's standard library comes from Debian's sources of it and is built with the rest; mingw-w64 links, and Wine
//! runs. One function of Windows is not in Wine 8, and is built here from a page of C. What is built stays in
//! `target/windows`.

mod addon;
mod toolchain;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use self::toolchain::{TARGET, by_wine, cargo};
use crate::run::{Result, root, run, said, show};

/// What it takes, as Debian's packages: for each a program or a folder by which it is known to be there.
const PACKAGES: [(&str, &str); 6] = [
    ("rustc-web", "/usr/bin/rustc"),
    ("cargo-web", "/usr/bin/cargo"),
    ("rust-web-src", "/usr/lib/rustlib/src/rust/library/Cargo.lock"),
    ("gcc-mingw-w64-x86-64", "/usr/bin/x86_64-w64-mingw32-gcc"),
    ("wine64", "/usr/lib/wine/wine64"),
    ("wine", "/usr/bin/wine"),
];

/// A suite of tests: what it is called here, and what Cargo calls it.
struct Suite {
    name: &'static str,
    package: &'static str,
    target: &'static [&'static str],
}

const fn suite(
    name: &'static str,
    package: &'static str,
    target: &'static [&'static str],
) -> Suite {
    Suite { name, package, target }
}

/// All that is run.
const SUITES: [Suite; 3] = [
    suite("platform", "navlock-platform", &["--lib"]),
    suite("engine", "navlock-engine", &["--lib", "--tests"]),
    suite("core", "navlock-core", &["--lib", "--tests"]),
];

/// The suite of the npm package, which is not one of Cargo's.
const ADDON: &str = "addon";

/// Tests that do not run by Wine, with the reason. They must be there: one that is gone has to go here, too.
const LEFT_OUT: [(&str, &str, &str); 0] = [];

pub(crate) fn windows(arguments: &[&str]) -> Result {
    let with_addon = arguments.is_empty() || arguments.contains(&ADDON);
    let chosen: Vec<&Suite> = match arguments {
        [] => SUITES.iter().collect(),
        names => {
            let names = names.iter().filter(|name| **name != ADDON);
            names.map(|name| by_name(name)).collect::<Result<_>>()?
        }
    };
    install()?;
    let folder = root().join("target/windows");
    let built = folder.join(TARGET).join("debug");
    fs::create_dir_all(built.join("deps"))
        .map_err(|error| format!("{}: {error}", built.display()))?;
    random_bytes(&built)?;
    let mut counts = BTreeMap::new();
    for suite in &chosen {
        counts.insert(suite.name, test(suite, &folder)?);
    }
    if with_addon {
        counts.insert(ADDON, addon::test(&folder)?);
    }
    println!("\nfor {TARGET}, by {}:", said(by_wine(&folder).arg("--version"))?);
    for (name, passed) in counts {
        println!("  {name}: {passed} passed");
    }
    for (suite, test, why) in LEFT_OUT {
        println!("  {suite}: {test} was left out: {why}");
    }
    Ok(())
}

fn by_name(name: &str) -> Result<&'static Suite> {
    let known = SUITES.iter().find(|suite| suite.name == name);
    let names = || SUITES.map(|suite| suite.name).join(", ");
    known.ok_or_else(|| {
        format!("usage: cargo xtask windows [SUITE…]; there are {}, {ADDON}", names())
    })
}

/// Installs what is not there, or says what to install.
fn install() -> Result {
    let missing = PACKAGES.iter().filter(|(_, known_by)| !Path::new(known_by).exists());
    let missing: Vec<_> = missing.map(|(package, _)| *package).collect();
    println!("it needs {}", PACKAGES.map(|(package, _)| package).join(", "));
    if missing.is_empty() {
        return Ok(());
    }
    let is_root = said(Command::new("id").arg("-u")).is_ok_and(|user| user == "0");
    if !is_root {
        return Err(format!("install what is missing: apt-get install {}", missing.join(" ")));
    }
    run(Command::new("apt-get").args(["-qq", "update"]))?;
    let how = ["-qq", "-y", "--no-install-recommends", "install"];
    run(Command::new("apt-get").args(how).args(missing))
}

/// Builds the library that Wine does not have, beside the programs that need it.
fn random_bytes(built: &Path) -> Result {
    const NAME: &str = "bcryptprimitives.dll";
    let library = built.join("deps").join(NAME);
    let mut compiler = Command::new("x86_64-w64-mingw32-gcc");
    compiler.args(["-shared", "-O1", "-o"]).arg(&library);
    compiler.arg(root().join("xtask/src/windows/bcryptprimitives.c")).arg("-ladvapi32");
    run(&mut compiler)?;
    let beside = built.join(NAME);
    fs::copy(&library, &beside).map_err(|error| format!("{}: {error}", beside.display()))?;
    Ok(())
}

/// Runs a suite. How many of its tests have passed.
fn test(suite: &Suite, folder: &Path) -> Result<usize> {
    let of_suite = || {
        let mut command = cargo(folder);
        command.args(["test", "--locked", "--no-fail-fast", "--target", TARGET]);
        command.args(["-Zbuild-std=std,panic_unwind,test", "-p", suite.package, "--all-features"]);
        command.args(suite.target).arg("--");
        command
    };
    let left_out: Vec<_> = LEFT_OUT.iter().filter(|left_out| left_out.0 == suite.name).collect();
    if !left_out.is_empty() {
        let listed = said(of_suite().arg("--list"))?;
        let is_there = |test: &str| listed.lines().any(|line| line == format!("{test}: test"));
        if let Some((_, gone, _)) = left_out.iter().find(|(_, test, _)| !is_there(test)) {
            return Err(format!("{}: {gone} is left out, and there is no such test", suite.name));
        }
    }
    let mut command = of_suite();
    command.arg("--exact");
    for (_, test, _) in &left_out {
        command.args(["--skip", test]);
    }
    println!("\n$ {}", show(&command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let mut passed = 0;
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(|error| error.to_string())?;
        println!("{line}");
        passed += passed_of(&line).unwrap_or(0);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("{} failed ({status})", suite.name));
    }
    if passed == 0 {
        return Err(format!("{} ran no test", suite.name));
    }
    Ok(passed)
}

/// How many tests have passed, by the last line of one program of tests.
fn passed_of(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("test result: ok. ")?;
    rest.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_counted_of_programs_of_tests_alone() {
        let line = "test result: ok. 17 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(passed_of(line), Some(17));
        assert_eq!(passed_of("test a::b ... ok"), None);
        assert_eq!(passed_of("test result: FAILED. 16 passed; 1 failed"), None);
        assert!(by_name("engine").is_ok() && by_name("kernel").is_err());
    }
}
