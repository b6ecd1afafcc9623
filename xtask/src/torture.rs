//! `cargo xtask torture`.

use crate::run::{Result, cargo, root, run};

/// Builds the command and the program that tortures it, and runs the latter. Its options are in
/// `torture/src/options.rs`.
pub(crate) fn torture(arguments: &[&str]) -> Result {
    let mut command = cargo(&["build", "--package", "navlock-cli", "--package", "navlock-torture"]);
    if arguments.contains(&"etcd") {
        command.args(["--features", "navlock-cli/etcd"]);
    } else if arguments.contains(&"postgres") {
        command.args(["--features", "navlock-cli/postgres"]);
    }
    run(&mut command)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = root().join(target);
    let built = target.join("debug");
    let folder = target.join("torture").join(std::process::id().to_string());
    // A run can last long. It tortures copies, so that a build meanwhile does not change the programs.
    let copy = |program: &str| {
        let copy = folder.join(program);
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::copy(built.join(program), &copy))
            .map_err(|error| format!("cannot copy {program} into {}: {error}", folder.display()))?;
        Ok::<_, String>(copy)
    };
    let mut torture = std::process::Command::new(copy("navlock-torture")?);
    torture.arg("--navlock").arg(copy("navlock")?);
    torture.arg("--logs").arg(folder.join("logs")).args(arguments);
    run(&mut torture)
}
