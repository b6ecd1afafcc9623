//! `cargo xtask windows`: builds navlock for Windows, and runs its tests there, by Wine.
//!
//! Rust's standard library is built with the rest, from Debian's package of its sources; mingw-w64 links, and
//! Wine runs the programs. Wine 8 lacks one function of Windows, which is built here from a page of C. What
//! is built stays in `target/windows`.

mod addon;
mod suites;
mod toolchain;

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use self::{
    suites::{LEFT_OUT, Passed, SUITES, Suite},
    toolchain::{TARGET, by_wine},
};
use crate::run::{Result, root, run, said};

/// The packages of Debian that are needed, each with a file that shows that the package is installed.
const PACKAGES: [(&str, &str); 6] = [
    ("rustc-web", "/usr/bin/rustc"),
    ("cargo-web", "/usr/bin/cargo"),
    ("rust-web-src", "/usr/lib/rustlib/src/rust/library/Cargo.lock"),
    ("gcc-mingw-w64-x86-64", "/usr/bin/x86_64-w64-mingw32-gcc"),
    ("wine64", "/usr/lib/wine/wine64"),
    ("wine", "/usr/bin/wine"),
];

/// The suite of the npm package, which is not one of Cargo's.
const ADDON: &str = "addon";

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
        counts.insert(suite.name, suites::test(suite, &folder)?);
    }
    if with_addon {
        let count = addon::test(&folder)?;
        counts.insert(ADDON, Passed { count, only_alone: Vec::new() });
    }
    println!("\nfor {TARGET}, by {}:", said(by_wine(&folder).arg("--version"))?);
    for (name, Passed { count, only_alone }) in counts {
        println!("  {name}: {count} passed");
        for test in only_alone {
            println!("  {name}: {test} failed beside others, and passed alone");
        }
    }
    for (suite, test, why) in LEFT_OUT {
        if chosen.iter().any(|chosen| chosen.name == suite) {
            println!("  {suite}: {test} was left out: {why}");
        }
    }
    if chosen.iter().any(|chosen| chosen.name == suites::COMMAND) {
        println!("  {}: of its end-to-end tests these are for Unix alone:", suites::COMMAND);
        for (module, why) in suites::for_unix_alone()? {
            println!("    {module}: {why}");
        }
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

/// Installs missing packages as root. Otherwise the error says what to install.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_is_not_there_is_refused() {
        assert!(by_name("engine").is_ok() && by_name("kernel").is_err());
    }
}
