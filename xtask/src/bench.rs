//! `cargo xtask bench`.

use crate::run::{Result, built, cargo, npm, root, run};

/// The document with the tables, each between its markers.
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
        // The command `navlock` is measured too. The benchmarks look for it beside their own program.
        let mut command = cargo(&["build", "--release", "--quiet", "--package", "navlock-cli"]);
        if matches!(*family, "etcd" | "etcd-scale") {
            command.args(["--features", "etcd"]);
        }
        run(&mut command)?;
    }
    // Locks within one process are part of a user's program, so they are built as such programs are. Between
    // processes or machines, both ends are navlock's own programs, so they are built as they are released.
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

/// Runs the benchmarks of the npm package. They need the built package and the program of our own benchmarks.
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

/// Whether the arguments ask for all rows, measured in full. Only such a table is written into the document.
fn is_whole(arguments: &[&str]) -> bool {
    !arguments.contains(&"--only") && !arguments.contains(&"--quick")
}
