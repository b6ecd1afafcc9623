//! `cargo xtask wpt`.

use std::process::Command;

use crate::run::{Result, root, run};

/// Runs the web-platform-tests of Web Locks on the engines embedded in Rust, within a process and through a
/// broker. The runner is that of the npm package, and needs only Node. It has cargo build what it runs, and
/// takes the expected failures from `npm/navlock/test/wpt-expectations.json`.
pub(crate) fn wpt(rest: &[&str]) -> Result {
    if !rest.contains(&"--wpt") {
        let message = "usage: cargo xtask wpt --wpt CHECKOUT [--subject boa,quickjs] [--file WORDS] [--update] \
                       [--verbose], where CHECKOUT is a checkout of web-platform-tests";
        return Err(message.to_owned());
    }
    let mut node = Command::new("node");
    node.arg("npm/navlock/test/wpt.mjs").args(rest).current_dir(root());
    if !rest.contains(&"--subject") {
        node.args(["--subject", "boa,boa-machine,quickjs,quickjs-machine"]);
    }
    run(&mut node)
}
