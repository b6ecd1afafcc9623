//! `cargo xtask fresh`: the README, followed on a new machine.
//!
//! A README may lack a step that every developer made long ago, and no developer notices. So this command
//! makes a minimal Debian in a folder, and brings into it the Rust and the Node of this machine, and nothing
//! else. It copies what is committed, and does there what the README says under "Two commands": it installs
//! the packages that the README names, without those that they recommend, and runs the README's commands as a
//! user who is not root.
//!
//! How to reach the registries is the machine's affair and not the project's. So name servers, proxies,
//! certificates, and the settings of apt, cargo and npm are copied from this machine.

pub(crate) mod host;
mod machine;
mod readme;

use crate::run::Result;

use self::machine::Machine;

const USAGE: &str = "\
usage: cargo xtask fresh [OPTIONS]     (as root: it mounts, and changes its root directory)

  --build-only      only up to the first command, which builds the product and runs it
  --rev REV         follows the README of another commit (HEAD)
  --install LIST    packages that the README does not name, to see what is missing; with commas
  --base DIR        copies a minimal Debian that debootstrap has made there, instead of making one
  --in DIR          makes the machine in this folder (target/fresh); some 15 GB";

pub(crate) fn fresh(arguments: &[&str]) -> Result {
    let options = Options::parse(arguments)?;
    let mut nth = 0;
    // Each step is announced, so that a failure is seen to belong to its step.
    let mut step = |what: &str| {
        nth += 1;
        println!("\n=== step {nth}: {what}");
        let message = format!("cargo xtask fresh failed in step {nth}, {what}");
        move |error: String| format!("{message}:\n{error}")
    };

    let failed = step("look what there is here");
    let machine = Machine::prepare(options.folder).map_err(failed)?;
    let failed = step("make a minimal Debian");
    machine.install_debian(options.base).map_err(failed)?;
    let failed = step("bring Rust and Node");
    machine.bring_tools().map_err(failed)?;
    let failed = step(&format!("copy what is committed as {}", options.rev));
    machine.check_out(options.rev).map_err(failed)?;

    let failed = step("read README.md");
    let mut steps = readme::steps(&machine.read("README.md")?).map_err(failed)?;
    if let Some(first) = steps.first_mut() {
        first.packages.extend(options.install.iter().map(|&package| package.to_owned()));
    }
    let mut is_first = true;
    for readme::Step { packages, commands } in steps {
        if !packages.is_empty() {
            let failed = step(&format!("install {}", packages.join(" ")));
            machine.install(&packages).map_err(failed)?;
        }
        for command in commands {
            let failed = step(&command);
            machine.run(&command).map_err(failed)?;
        }
        if is_first {
            let failed = step("see what the first command has done");
            five_lines(&machine.read("shared.txt")?).map_err(failed)?;
        }
        if is_first && options.is_build_only {
            println!("\nthe first command of the README works on a new machine");
            return Ok(());
        }
        is_first = false;
    }
    println!("\nthe README holds on a new machine");
    Ok(())
}

/// Checks what the first command appends to `shared.txt`.
fn five_lines(text: &str) -> Result {
    let ends: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    if ends == ["1", "2", "3", "4", "5"] {
        Ok(())
    } else {
        Err(format!("shared.txt has other lines than the README says:\n{text}"))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Options<'a> {
    is_build_only: bool,
    rev: &'a str,
    install: Vec<&'a str>,
    base: Option<&'a str>,
    folder: Option<&'a str>,
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a str]) -> Result<Self> {
        let mut options = Self {
            is_build_only: false,
            rev: "HEAD",
            install: Vec::new(),
            base: None,
            folder: None,
        };
        let mut arguments = arguments.iter();
        while let Some(&argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .copied()
                    .ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))
            };
            match argument {
                "--build-only" => options.is_build_only = true,
                "--rev" => options.rev = value()?,
                "--install" => options.install = value()?.split(',').collect(),
                "--base" => options.base = Some(value()?),
                "--in" => options.folder = Some(value()?),
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_understood_or_refused() {
        let options =
            Options::parse(&["--build-only", "--install", "a,b", "--rev", "old"]).unwrap();
        assert!(options.is_build_only);
        assert_eq!((options.rev, options.install), ("old", vec!["a", "b"]));
        assert!(Options::parse(&["--rev"]).is_err());
        assert!(Options::parse(&["--quick"]).is_err());
    }

    #[test]
    fn five_lines_of_one_process_are_what_the_first_command_writes() {
        assert_eq!(five_lines("17 1\n17 2\n17 3\n17 4\n17 5\n"), Ok(()));
        assert!(five_lines("17 1\n17 2\n").is_err());
        assert!(five_lines("").is_err());
    }
}
