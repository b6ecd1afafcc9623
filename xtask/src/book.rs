//! `cargo xtask book`, and the step of `cargo xtask test` that builds the book.

mod links;

use std::process::Command;

use crate::run::{Result, cargo, root, run, said};

const USAGE: &str = "usage: cargo xtask book [--pictures]";

/// Writes the pages of the book that are made from the code, draws its pictures if that is asked, and
/// builds the book where `mdbook` is installed.
pub(crate) fn book(arguments: &[&str]) -> Result {
    let draws = match arguments {
        [] => false,
        ["--pictures"] => true,
        _ => return Err(USAGE.to_owned()),
    };
    // The command line is defined in a program and not in a library, so a test of that program writes the
    // pages. The test is built with the features and packages of `cargo xtask test`, so that nothing is built
    // twice.
    let write = |target: &[&str], tests: &str| {
        let test = || {
            let mut test = cargo(&["test", "--workspace", "--all-features"]);
            test.args(target).args(["--", "--ignored", tests]);
            test
        };
        // Cargo succeeds even if no test has this name, so look for the test first.
        if !said(test().arg("--list"))?.contains(": test") {
            return Err(format!(
                "no test is called {tests}, which should write a part of the book"
            ));
        }
        run(&mut test())
    };
    write(&["--bin", "navlock"], "commands::reference::writes_the_reference_of_the_book")?;
    if draws {
        write(&["--test", "e2e"], "picture::draws_")?;
    }
    build(false)
}

/// Builds the book and checks the links of the built pages. If mdBook is not installed, this is an error where
/// the book `must` be built. Elsewhere the message says that the book was not built.
pub(crate) fn build(must: bool) -> Result {
    if said(Command::new("mdbook").arg("--version")).is_err() {
        let missing = "the book (`cargo install mdbook --locked`, then `mdbook build docs`)";
        if must {
            return Err(format!("cannot build {missing}"));
        }
        println!("\nnot built: {missing}");
        return Ok(());
    }
    run(Command::new("mdbook").args(["build", "docs"]).current_dir(root()))?;
    // docs/book.toml names this folder.
    links::check(&root().join("target/book"))
}
