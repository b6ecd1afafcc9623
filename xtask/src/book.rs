//! `cargo xtask book`, and the step of `cargo xtask test` that builds the book.

mod links;

use std::{fs, process::Command};

use crate::run::{Result, cargo, root, run, said};

const USAGE: &str = "usage: cargo xtask book [--pictures]";

/// The page with the list of rules.
const IMPLEMENTERS: &str = "docs/implementers.md";

/// The marks before and after the list, which is made of the table in CONFORMANCE.md.
const RULES: [&str; 2] = ["<!-- rules -->\n", "<!-- /rules -->\n"];

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
    let page = with_rules(&read(IMPLEMENTERS)?, &read("CONFORMANCE.md")?)?;
    fs::write(root().join(IMPLEMENTERS), page)
        .map_err(|error| format!("cannot write {IMPLEMENTERS}: {error}"))?;
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

fn read(file: &str) -> Result<String> {
    fs::read_to_string(root().join(file)).map_err(|error| format!("cannot read {file}: {error}"))
}

/// The page with the list of rules as CONFORMANCE.md has them.
fn with_rules(page: &str, conformance: &str) -> Result<String> {
    let [open, close] = RULES;
    let marked = page.split_once(open).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(close)?;
        Some((before, after))
    });
    let (before, after) =
        marked.ok_or_else(|| format!("{IMPLEMENTERS} has no place for the list of rules"))?;
    let (_, table) = conformance
        .split_once("\n| rule | in short |")
        .ok_or("CONFORMANCE.md has no table of rules")?;
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("| "));
    let first_two = |row: &str| row.split(" | ").take(2).collect::<Vec<_>>().join(" | ") + " |\n";
    let list: Vec<_> = rows.map(first_two).collect();
    let list = list.concat();
    Ok(format!("{before}{open}| rule | in short |\n|---|---|\n{list}{close}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_implementers_lists_the_rules_of_conformance() {
        let page = read(IMPLEMENTERS).unwrap();
        let current = with_rules(&page, &read("CONFORMANCE.md").unwrap()).unwrap();
        assert!(page == current, "{IMPLEMENTERS} has other rules: run `cargo xtask book`");
        assert!(page.contains("\n| 33 | "), "all rules are found");
    }
}
