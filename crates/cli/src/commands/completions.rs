//! `navlock completions`: for shells.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::{Failure, answer};

/// Prints the completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `navlock`, which is the command line of this program.
pub(super) fn completions(
    args: &CompletionsArgs,
    mut navlock: Command,
) -> Result<ExitCode, Failure> {
    // The script is not written straight into the stream, because `generate` panics if that fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut navlock, "navlock", &mut script);
    answer(script)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{check_refusal, parsed};

    #[test]
    fn the_script_is_for_a_shell_that_is_known() {
        assert_eq!(parsed::<CompletionsArgs>("completions fish").shell, Shell::Fish);
        check_refusal("completions csh", ErrorKind::InvalidValue, &["csh", "fish"]);
        check_refusal("completions", ErrorKind::MissingRequiredArgument, &["SHELL"]);
    }
}
