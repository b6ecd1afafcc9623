//! The packages of npm: made, and installed as packed in an empty project, on four runtimes.

use std::{fs, process::Command};

use crate::run::{Result, npm as command, root, run, said, within};

use super::{empty, folder, shell, sum_up};

pub(super) fn npm() -> Result<String> {
    // These are the package's dependencies for development, with the four runtimes. npm writes this file at
    // the end of an installation.
    if !root().join("npm/navlock/node_modules/.package-lock.json").exists() {
        run(&mut within(20, &command(&["ci"])))?;
    }
    let to = empty("npm")?;
    let mut make = command(&["run", "release", "--", "--out"]);
    run(&mut within(40, make.arg(&to)))?;
    run(&mut shell(1, r#"cp "$1"/*.tgz ."#, &[&to]))?;
    sum_up()?;
    let packed = fs::read_dir(&to).map_err(|error| error.to_string())?.flatten();
    let packed =
        packed.filter(|file| file.path().extension().is_some_and(|is| is == "tgz")).count();
    if packed != 2 {
        return Err(format!(
            "there are {packed} packages, and should be two: navlock, and one for this machine"
        ));
    }

    let mut test = Command::new("node");
    test.args(["--test", "--test-reporter=tap", "test/package/package.test.mjs"]);
    test.current_dir(root().join("npm/navlock")).env("NAVLOCK_PACKED", &to);
    let said =
        said(&mut within(15, &test)).map_err(|error| format!("the packages as packed: {error}"))?;
    println!("{said}");
    let count = |what: &str| {
        let line = said.lines().rev().find_map(|line| line.strip_prefix(what))?;
        line.trim().parse::<usize>().ok()
    };
    match (count("# pass "), count("# fail ")) {
        (Some(passed), Some(0)) if passed > 4 => {
            let sums = folder().join("SHA256SUMS");
            Ok(format!("{passed} tests of what is packed; checksums in {}", sums.display()))
        }
        _ => Err("the tests of what is packed do not say that they have passed".to_owned()),
    }
}
