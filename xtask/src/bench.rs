//! `cargo xtask bench`.

use crate::run::{Result, cargo, run};

/// Runs one family of benchmarks and writes its table into the README.
pub(crate) fn bench(arguments: &[&str]) -> Result {
    let [family @ ("in-process" | "broker"), rest @ ..] = arguments else {
        let usage = "usage: cargo xtask bench in-process|broker [--only ROW] [--rounds N]";
        return Err(usage.to_owned());
    };
    let mut command = cargo(&["run", "--release", "--quiet", "--package", "navlock-benches", "--"]);
    command.arg(family).args(rest);
    // Part of a table is for looking at; the README has the whole.
    if !rest.contains(&"--only") && !rest.contains(&"--quick") {
        command.args(["--splice", "README.md"]);
    }
    run(&mut command)
}
