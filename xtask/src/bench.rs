//! `cargo xtask bench`.

use crate::run::{Result, built, cargo, npm, root, run};

/// Where the tables stand, each between its markers.
const FIGURES: &str = "docs/figures.md";

/// Runs one family of benchmarks and writes its table among the figures.
pub(crate) fn bench(arguments: &[&str]) -> Result {
    if let ["js", rest @ ..] = arguments {
        return js(rest);
    }
    let [
        family @ ("in-process" | "broker" | "looking" | "etcd" | "etcd-scale" | "embedded"),
        rest @ ..,
    ] = arguments
    else {
        let usage = "usage: cargo xtask bench in-process|broker|looking|etcd|etcd-scale|embedded|js [--only ROW] [--rounds N]";
        return Err(usage.to_owned());
    };
    if matches!(*family, "broker" | "looking" | "etcd" | "etcd-scale") {
        // The command is measured too, and is looked for beside the benchmarks.
        let mut command = cargo(&["build", "--release", "--quiet", "--package", "navlock-cli"]);
        if matches!(*family, "etcd" | "etcd-scale") {
            command.args(["--features", "etcd"]);
        }
        run(&mut command)?;
    }
    // Locks of one process are code within a program, and built as programs are. What is between
    // processes or machines is ours on both ends, and built as it is released.
    let profile = if *family == "in-process" { "user" } else { "release" };
    let benches = ["run", "--profile", profile, "--quiet", "--package", "navlock-benches"];
    let mut command = cargo(&benches);
    if *family == "embedded" {
        command.args(["--features", "embedded"]);
    }
    command.arg("--").arg(family).args(rest);
    if is_whole(rest) {
        command.args(["--splice", FIGURES]);
    }
    run(&mut command)
}

/// Those of the npm package, which need what is built of it, and the bare broker of ours.
fn js(arguments: &[&str]) -> Result {
    if !root().join("npm/navlock/node_modules").exists() {
        run(&mut npm(&["ci"]))?;
    }
    run(&mut npm(&["run", "build"]))?;
    run(&mut cargo(&["build", "--release", "--quiet", "--package", "navlock-benches"]))?;
    let mut command = npm(&["run", "bench", "--"]);
    command.args(arguments).env("NAVLOCK_BENCHES", built("navlock-benches")?);
    if is_whole(arguments) {
        command.arg("--splice").arg(root().join(FIGURES));
    }
    run(&mut command)
}

/// Part of a table is for looking at; the document has the whole.
fn is_whole(arguments: &[&str]) -> bool {
    !arguments.contains(&"--only") && !arguments.contains(&"--quick")
}
