//! `cargo xtask bench`.

use std::process::Command;

use crate::{
    python,
    run::{Result, built, cargo, npm, root, run},
};

/// The document with the tables, each between its markers.
const FIGURES: &str = "docs/figures.md";

/// Runs one family of benchmarks and writes its table among the figures.
pub(crate) fn bench(arguments: &[&str]) -> Result {
    match arguments {
        ["js", rest @ ..] => return js(rest),
        ["faces", rest @ ..] => return faces(rest),
        ["python", rest @ ..] => return in_python(rest),
        _ => {}
    }
    let [
        family @ ("in-process" | "broker" | "looking" | "etcd" | "etcd-scale" | "postgres"
        | "embedded"),
        rest @ ..,
    ] = arguments
    else {
        let usage = "usage: cargo xtask bench in-process|broker|looking|etcd|etcd-scale|postgres|embedded|js|faces|python [--only ROW] [--rounds N]";
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
    build_package()?;
    run(&mut cargo(&["build", "--release", "--quiet", "--package", "navlock-benches"]))?;
    let mut command = npm_benchmark("bench", arguments);
    run(command.env("NAVLOCK_BENCHES", built("navlock-benches")?))
}

/// Compares section 3 of the specification in Rust with that in JavaScript. The script builds the half in Rust.
fn faces(arguments: &[&str]) -> Result {
    build_package()?;
    run(&mut npm_benchmark("bench:faces", arguments))
}

/// Runs the benchmarks of the Python package.
fn in_python(arguments: &[&str]) -> Result {
    let figures = root().join(FIGURES).display().to_string();
    let splice = ["--splice", &figures];
    let all: Vec<_> =
        arguments.iter().chain(splice.iter().filter(|_| is_whole(arguments))).copied().collect();
    python::bench(&all)
}

/// Builds the npm package, which the benchmarks in JavaScript measure.
fn build_package() -> Result {
    if !root().join("npm/navlock/node_modules").exists() {
        run(&mut npm(&["ci"]))?;
    }
    run(&mut npm(&["run", "build"]))
}

/// A script of the npm package that measures, and writes its tables among the figures.
fn npm_benchmark(script: &str, arguments: &[&str]) -> Command {
    let mut command = npm(&["run", script, "--"]);
    command.args(arguments);
    if is_whole(arguments) {
        command.arg("--splice").arg(root().join(FIGURES));
    }
    command
}

/// Whether the arguments ask for all rows, measured in full. Only such a table is written into the document.
fn is_whole(arguments: &[&str]) -> bool {
    !arguments.contains(&"--only") && !arguments.contains(&"--quick")
}
