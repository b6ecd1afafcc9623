//! `cargo xtask torture`.

use crate::run::{Result, cargo, root, run};

/// Tortures what is built here. The options are those of the program itself, which `torture/src`
/// lists.
pub(crate) fn torture(arguments: &[&str]) -> Result {
    let mut command = cargo(&["build", "--package", "navlock-cli", "--package", "navlock-torture"]);
    if arguments.contains(&"etcd") {
        command.args(["--features", "navlock-cli/etcd"]);
    }
    run(&mut command)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let target = root().join(target);
    let built = target.join("debug");
    let logs = target.join("torture").join(std::process::id().to_string());
    let mut torture = std::process::Command::new(built.join("navlock-torture"));
    torture.arg("--navlock").arg(built.join("navlock")).arg("--logs").arg(logs).args(arguments);
    run(&mut torture)
}
