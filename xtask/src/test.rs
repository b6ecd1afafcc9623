//! `cargo xtask test`.

use std::{fs, process::Command};

use crate::{
    book, python,
    run::{Result, built_in, cargo, npm, root, run, run_beside, said, unhurried},
};

const USAGE: &str = "usage: cargo xtask test [--quick | --with-book]";

/// `cargo xtask test` with these arguments.
pub(crate) fn test(arguments: &[&str]) -> Result {
    match arguments {
        [] => all(false),
        ["--with-book"] => all(true),
        ["--quick"] => quick(),
        _ => Err(USAGE.to_owned()),
    }
}

/// Everything that must hold before a change lands. Cheap checks come first. If mdBook is not installed, the
/// book is not built, or this is an error where the book `must` be built.
fn all(must_build_book: bool) -> Result {
    for (program, package, what_for) in NEEDED {
        let started = Command::new(program).arg("--version").output();
        started.map_err(|error| {
            format!(
                "cannot start {program}: {error}; {what_for} (Debian: apt-get install {package})"
            )
        })?;
    }
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    // These three checks need no database of advisories.
    if said(&mut cargo(&["deny", "--version"])).is_ok() {
        run(&mut cargo(&["deny", "--locked", "check", "licenses", "bans", "sources"]))?;
    } else {
        println!("\nnot checked: licences and sources (`cargo install cargo-deny --locked`)");
    }

    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(&clippy).args(["--", "--deny", "warnings"]))?;
    let doc = ["doc", "--workspace", "--all-features", "--no-deps"];
    run(cargo(&doc).env("RUSTDOCFLAGS", "--deny warnings"))?;
    book::build(must_build_book)?;
    // With the default features, without any, with etcd but without TLS, and with PostgreSQL alone.
    for package in [
        &["navlock"][..],
        &["navlock-cli"],
        &["navlock-cli", "--no-default-features"],
        &["navlock-cli", "--features", "etcd"],
        &["navlock-cli", "--features", "postgres"],
    ] {
        let mut clippy = cargo(&["clippy", "--package"]);
        run(clippy.args(package).args(["--", "--deny", "warnings"]))?;
    }

    let tests = ["test", "--workspace", "--all-features"];
    run(cargo(&tests).arg("--no-run"))?;
    // Most tests wait for processes and servers. So one of two cores is free for commands that need neither.
    let [core, delegation] = ["navlock-core", "navlock-delegation"].map(shuttle);
    let others = [npm(&["ci"]), npm(&["run", "build"]), core, delegation];
    // One failure must not hide the next ones.
    let all_tests = &mut cargo(&tests);
    run_beside(all_tests.arg("--no-fail-fast"), others.iter().map(unhurried).collect())?;
    // What the command says if it was built without a store, and if it was built with stores but without TLS. The
    // tests are not optimised: that would take longer than it saves.
    for features in [&[][..], &["--features", "etcd,postgres"]] {
        let mut settings = cargo(&["test", "--profile", "dev", "--package", "navlock-cli"]);
        run(settings.args(features).args(["--test", "e2e", "settings"]))?;
    }

    // With the features and the profile of the tests. With others, all dependencies would be built once more.
    let build = ["build", "--profile", "test", "--workspace", "--all-features"];
    run(cargo(&build).args(["--lib", "--bins", "--examples"]))?;
    for example in examples()? {
        run(Command::new(built_in("debug/examples", &example)?).current_dir(root()))?;
    }
    // This shows that the benchmarks run; what they measure here means nothing.
    let benches = built_in("debug", "navlock-benches")?;
    let families: &[&str] = if cfg!(target_os = "linux") {
        &["in-process", "broker", "looking", "etcd", "etcd-scale", "postgres"]
    } else {
        &["in-process", "etcd"]
    };
    for family in families {
        run(Command::new(&benches).args([family, "--quick"]).current_dir(root()))?;
    }

    package()?;
    python::test()?;

    println!("\nall that must hold does");
    Ok(())
}

/// The checks that find most mistakes, in about two minutes once all is built. They need no broker, no server
/// and no JavaScript.
fn quick() -> Result {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(&clippy).args(["--", "--deny", "warnings"]))?;
    let tests = QUICK.iter().flat_map(|test| ["--test", test]);
    run(cargo(&["test", "--workspace", "--all-features", "--lib", "--bins"])
        .args(tests)
        // The model searches through the orders of events of machines on etcd, which is not quick.
        .args(["--", "--skip", "keeper::model"]))?;
    println!("\nwhat is quick to see holds; `cargo xtask test` sees the rest");
    Ok(())
}

/// Suites that are done in seconds: the engine against its model, what a user calls, and the documents.
const QUICK: [&str; 12] = [
    "model",
    "requests",
    "user_agents",
    "inside",
    "wakers",
    "steps",
    "conformance",
    "contributing",
    "crate_direction",
    "documents",
    "module_cycles",
    "platform_seam",
];

/// Programs that must be installed: each with its package in Debian, and what needs the program.
const NEEDED: [(&str, &str, &str); 6] = [
    ("etcd", "etcd-server", "the tests of many machines start it"),
    ("etcdctl", "etcd-client", "the tests of many machines disturb etcd by it"),
    ("psql", "postgresql", "the tests of many machines start a PostgreSQL"),
    ("pgbouncer", "pgbouncer", "the tests of PostgreSQL reach it by a pooler as well"),
    (
        "python3",
        "python3-venv",
        "the Python package is tested with Python 3.10 or newer and its venv",
    ),
    ("npm", "npm", "the npm package is tested with Node 20 or newer and its npm"),
];

/// Tests the npm package on all runtimes. The package must be built.
fn package() -> Result {
    run(&mut npm(&["test"]))?;
    // This checks the suite itself: of another implementation, the suite must report what is known of it.
    run(&mut npm(&["run", "conformance", "--", "--subject", "native"]))?;
    // This shows that the benchmarks run; what they measure here means nothing.
    run(&mut npm(&["run", "bench", "--", "--quick"]))
}

/// The tests of a crate under shuttle, a scheduler that tries many orders of threads. The crate is built with
/// shuttle's locks and atomics. This configuration has a target folder of its own: in a shared folder, each
/// configuration would build anew what the other has built.
fn shuttle(package: &str) -> Command {
    let mut tests = cargo(&["test", "--package", package, "--test", "shuttle"]);
    tests.env("RUSTFLAGS", "--cfg shuttle").args(["--target-dir", "target/shuttle"]);
    tests
}

/// The names of the programs in `examples/`.
fn examples() -> Result<Vec<String>> {
    let folder = root().join("examples");
    let failed = |error| format!("{}: {error}", folder.display());
    let mut examples = Vec::new();
    for file in fs::read_dir(&folder).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        examples.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    examples.sort();
    Ok(examples)
}
