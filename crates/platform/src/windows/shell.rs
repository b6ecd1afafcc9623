//! The shell that runs a command line, and lines for people to paste into their shell, which may be cmd or
//! PowerShell.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::windows::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::file::is_executable;

/// A command that does nothing, as the words of a line.
pub const NOTHING: &str = "cmd /c exit";

/// The shell that runs lines: `%ComSpec%`, or cmd.
pub fn program() -> OsString {
    let shell = env::var_os("ComSpec").filter(|shell| !shell.is_empty());
    shell.unwrap_or_else(|| OsString::from("cmd.exe"))
}

/// The command by which the shell runs a line, as it stands there: it is the shell that takes it apart.
pub fn command(line: &OsStr) -> Command {
    let mut command = Command::new(program());
    let mut quoted = OsString::from("\"");
    quoted.push(line);
    quoted.push("\"");
    // Of what follows `/s /c`, the shell takes away the first quotation mark and the last, and nothing else.
    command.args(["/d", "/s", "/c"]).raw_arg(quoted);
    command
}

/// The command that runs the program of this name: also one whose name ends with what `%PATHEXT%`
/// says, as that of `npm.cmd` does. The system itself finds what ends with `.exe`.
pub fn command_of(program: &OsStr) -> Command {
    let found = found(program, env::var_os("PATH").as_deref());
    Command::new(found.map_or_else(|| program.to_owned(), PathBuf::into_os_string))
}

/// A file of this program for a shell to run, if the program could not be started with this error: on Windows a
/// script's ending says what runs it.
pub fn script(_: &OsStr, _: &io::Error) -> Option<PathBuf> {
    None
}

/// The program that this name runs, if there is one. A name that is no path is looked up in these
/// folders, and a name without an ending is looked for with each ending that a program may have.
pub fn found(name: &OsStr, folders: Option<&OsStr>) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() > 1 || name.has_root() {
        return with_ending(name);
    }
    env::split_paths(folders?).find_map(|folder| with_ending(&folder.join(name)))
}

/// The program at this path, or else at this path with an ending of programs.
fn with_ending(path: &Path) -> Option<PathBuf> {
    // What the system runs by itself, or by cmd. What is opened by another program is no program.
    const RUN: [&str; 4] = ["com", "exe", "bat", "cmd"];
    if path.extension().is_some_and(|ending| RUN.iter().any(|run| ending.eq_ignore_ascii_case(run)))
    {
        return is_executable(path).then(|| path.to_owned());
    }
    let endings = env::var("PATHEXT").unwrap_or_else(|_| ".COM;.EXE;.BAT;.CMD".to_owned());
    let endings = endings.split(';').map(|ending| ending.trim_start_matches('.').to_lowercase());
    let endings = endings.filter(|ending| RUN.contains(&&**ending));
    let mut all = endings.map(|ending| {
        let mut whole = path.as_os_str().to_owned();
        whole.push(".");
        whole.push(ending);
        PathBuf::from(whole)
    });
    all.find(|whole| is_executable(whole))
}

/// A text as one word of a line; `None` if there is no way to write it that all shells understand.
///
/// Whether people would misread the text is not checked.
pub fn quoted(text: &str) -> Option<String> {
    let is_plain = |char: char| char.is_alphanumeric() || r"_./:\+-".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Some(text.to_owned());
    }
    let is_special = |char: char| "\"%!$`".contains(char) || char.is_control();
    let is_clear = !text.chars().any(is_special) && !text.ends_with('\\');
    is_clear.then(|| format!("\"{text}\""))
}

/// The line that ends the process of this number. There is no milder line for a program that has no window.
pub fn line_to_end(number: u32, _: bool) -> String {
    format!("taskkill /f /pid {number}")
}

/// The line that continues these stopped processes: Windows has none.
pub fn line_to_continue(_: &[u32]) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_line_is_what_it_was() {
        for (text, word) in [
            ("db", Some("db")),
            (r"C:\navlock\sock", Some(r"C:\navlock\sock")),
            ("a b", Some("\"a b\"")),
            ("", Some("\"\"")),
            ("it's & x | y", Some("\"it's & x | y\"")),
            ("日本", Some("日本")),
            ("say \"x\"", None),
            ("%PATH%", None),
            ("$(x)", None),
            (r"a b\", None),
        ] {
            assert_eq!(quoted(text).as_deref(), word, "{text:?}");
        }
    }

    #[test]
    fn a_line_is_run_by_the_shell_as_it_stands_there() {
        let output = command(OsStr::new("echo \"a b\" & exit 3")).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "\"a b\"");
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_program_is_found_by_what_its_name_may_end_with() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("work.cmd"), "@exit 7\r\n").unwrap();
        let status = command_of(directory.path().join("work").as_os_str()).status().unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(command_of(OsStr::new("no-such-program")).get_program(), "no-such-program");
        let found = command_of(OsStr::new("cmd"));
        assert!(Path::new(found.get_program()).extension().is_some(), "{found:?}");
    }
}
