//! The shell that runs a command line, and lines for people to paste into it.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::io::Errno;

use crate::file::is_executable;

/// A command that does nothing, as the words of a line.
pub const NOTHING: &str = "true";

/// The shell that runs lines: `$SHELL`, or `/bin/sh`.
pub fn program() -> OsString {
    let shell = env::var_os("SHELL").filter(|shell| !shell.is_empty());
    shell.unwrap_or_else(|| OsString::from("/bin/sh"))
}

/// The command by which the shell runs a line.
pub fn command(line: &OsStr) -> Command {
    let mut command = Command::new(program());
    command.arg("-c").arg(line);
    command
}

/// The command that runs the program of this name.
pub fn command_of(program: &OsStr) -> Command {
    Command::new(program)
}

/// The file of this program for `/bin/sh` to run, if the program was not started with this error because it is
/// a script that does not say what runs it.
pub fn script(program: &OsStr, error: &io::Error) -> Option<PathBuf> {
    let is_script = error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
    is_script.then(|| found(program, env::var_os("PATH").as_deref()))?
}

/// The program that this name runs, if there is one. A name that is no path is looked up in these folders.
pub fn found(name: &OsStr, folders: Option<&OsStr>) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() > 1 || name.has_root() {
        return is_executable(name).then(|| name.to_owned());
    }
    let mut all = env::split_paths(folders?).map(|folder| folder.join(name));
    all.find(|found| is_executable(found))
}

/// A text as one word of a line; `None` if there is no way to write it.
///
/// Whether people would misread the text is not checked.
pub fn quoted(text: &str) -> Option<String> {
    let is_plain =
        |char: char| char.is_ascii_alphanumeric() || "_./:@%+,-".contains(char) || !char.is_ascii();
    if !text.is_empty() && text.chars().all(is_plain) {
        return Some(text.to_owned());
    }
    Some(format!("'{}'", text.replace('\'', r"'\''")))
}

/// The line that ends the process of this number; if it is `forced`, also one that heeds nothing else.
pub fn line_to_end(number: u32, forced: bool) -> String {
    format!("kill {}{number}", if forced { "-KILL " } else { "" })
}

/// The line that continues these stopped processes, where there is one.
pub fn line_to_continue(numbers: &[u32]) -> Option<String> {
    let line = "kill -CONT".to_owned();
    Some(numbers.iter().fold(line, |line, number| format!("{line} {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_line_is_what_it_was() {
        for (text, word) in [
            ("db", "db"),
            ("a b", "'a b'"),
            ("", "''"),
            ("it's; rm -r ~ $(x) `y`", r"'it'\''s; rm -r ~ $(x) `y`'"),
            ("~", "'~'"),
            ("日本", "日本"),
        ] {
            assert_eq!(quoted(text).as_deref(), Some(word), "{text:?}");
        }
    }

    #[test]
    fn a_line_is_run_by_the_shell() {
        let output = command(OsStr::new("echo $((6 * 7)); exit 3")).output().unwrap();
        assert_eq!((&*output.stdout, output.status.code()), (&b"42\n"[..], Some(3)));
    }
}
