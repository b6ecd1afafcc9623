//! The steps that the README says to take.

use crate::run::Result;

/// The section that a newcomer follows.
const SECTION: &str = "\n## Two commands\n";

/// Packages to install, and then commands to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) packages: Vec<String>,
    pub(super) commands: Vec<String>,
}

/// The section's steps: each block of commands, with the packages that the text before the block names.
pub(super) fn steps(readme: &str) -> Result<Vec<Step>> {
    let (_, section) = readme
        .split_once(SECTION)
        .ok_or_else(|| format!("README.md has no section `{}`", SECTION.trim()))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut steps = Vec::new();
    // Text and blocks take turns.
    let mut parts = section.split("```");
    while let (Some(text), block) = (parts.next(), parts.next()) {
        let Some(block) = block else { break };
        let commands = block.lines().filter_map(|line| line.strip_prefix("$ "));
        steps.push(Step {
            packages: packages(text),
            commands: commands.map(str::to_owned).collect(),
        });
    }
    if steps.iter().any(|step| step.commands.is_empty()) || steps.is_empty() {
        return Err(format!("`{}` has a block without a command", SECTION.trim()));
    }
    Ok(steps)
}

/// The packages after each `apt-get install` in a text, up to the end of its code.
fn packages(text: &str) -> Vec<String> {
    let lists = text.split("apt-get install ").skip(1);
    let lists = lists.filter_map(|rest| rest.split('`').next());
    lists.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_come_before_the_commands_that_need_them() {
        let readme = "# a\n\n## Two commands\n\nWith a compiler (`apt-get install gcc\nlibc6-dev`):\n\n\
                      ```console\n$ cargo run\nprinted\n```\n\nAnd:\n\n```console\n$ cargo test\n$ b\n```\n\
                      \n## More\n\n`apt-get install d`\n\n```console\n$ e\n```\n";
        let of = |packages: &[&str], commands: &[&str]| Step {
            packages: packages.iter().map(|&package| package.to_owned()).collect(),
            commands: commands.iter().map(|&command| command.to_owned()).collect(),
        };
        let expected = [of(&["gcc", "libc6-dev"], &["cargo run"]), of(&[], &["cargo test", "b"])];
        assert_eq!(steps(readme).unwrap(), expected);
    }

    #[test]
    fn the_readme_has_such_steps_and_ends_with_the_tests() {
        let readme = std::fs::read_to_string(crate::run::root().join("README.md")).unwrap();
        let steps = steps(&readme).unwrap();
        assert!(steps[0].commands[0].starts_with("cargo run --release -- run "));
        assert_eq!(steps.last().unwrap().commands, ["cargo xtask test"]);
    }

    #[test]
    fn a_readme_without_the_section_is_refused() {
        assert!(steps("# a\n\n## Install\n").is_err());
        assert!(steps("# a\n\n## Two commands\n\ntext\n").is_err());
    }
}
