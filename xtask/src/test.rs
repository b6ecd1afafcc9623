//! `cargo xtask test`.

use std::fs;

use crate::run::{Result, cargo, root, run};

/// Everything that must hold before a change lands. Cheap checks come first.
pub(crate) fn test() -> Result {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;

    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(&clippy).args(["--", "--deny", "warnings"]))?;
    // The face without its features, as its users have it by default.
    run(cargo(&["clippy", "--package", "navlock"]).args(["--", "--deny", "warnings"]))?;

    run(&mut cargo(&["test", "--workspace", "--all-features"]))?;

    // The same crate with its locks exchanged: another configuration, so another target folder,
    // or each would build anew what the other has built.
    let shuttle = ["test", "--package", "navlock-core", "--test", "shuttle"];
    run(cargo(&shuttle)
        .env("RUSTFLAGS", "--cfg shuttle")
        .args(["--target-dir", "target/shuttle"]))?;

    let doc = ["doc", "--workspace", "--all-features", "--no-deps"];
    run(cargo(&doc).env("RUSTDOCFLAGS", "--deny warnings"))?;

    for example in examples()? {
        run(&mut cargo(&["run", "--quiet", "--package", "navlock", "--example", &example]))?;
    }
    // That the benchmarks run; what they measure here means nothing.
    let benches = ["run", "--quiet", "--package", "navlock-benches", "--"];
    run(cargo(&benches).args(["in-process", "--quick"]))?;
    if cfg!(target_os = "linux") {
        run(cargo(&benches).args(["broker", "--quick"]))?;
    }

    println!("\nall that must hold does");
    Ok(())
}

/// The programs in `examples/`.
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
