//! `navlock web --open`: the page in the user's browser.
//!
//! Every user of the machine can read the arguments of a program (`ps`), and the address contains a
//! token that lets in everybody who has it. So the browser gets the path of a file that nobody else
//! can read. The file is in the directory of the socket of this user's broker, and sends the browser on to the
//! address. It is removed when somebody has come in.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use navlock::{ClientId, Place};
use navlock_platform::{
    file::{careful, path_bytes},
    process::{OPENERS, set_apart},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::verbosity::Verbosity;

/// A file that sends a browser to an address. The file is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Entry(PathBuf);

impl Entry {
    /// Makes a file for this address. The address must contain nothing that has a meaning in HTML.
    pub(crate) fn new(place: &Place, address: &str) -> io::Result<Self> {
        // Nobody but the machine's broker may write into its place.
        let place = if place.is_of_system() { &Place::of_user() } else { place };
        place.prepare().map_err(io::Error::other)?;
        let path = place.page(&ClientId::random().to_string());
        let mut file = careful().write(true).create_new(true).open(&path)?;
        let entry = Self(path);
        let page = format!(
            "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>\
             <meta http-equiv=refresh content=\"0;url={address}\"><title>navlock</title>\
             <a href=\"{address}\">navlock</a>\n"
        );
        file.write_all(page.as_bytes())?;
        Ok(entry)
    }

    /// Lets a browser open the file. If no browser does, tells the user. The caller does not wait
    /// for this.
    pub(crate) fn open(&self, verbosity: Verbosity) {
        let chosen = env::var("BROWSER").ok().filter(|chosen| !chosen.trim().is_empty());
        let (commands, url) = (commands(chosen.as_deref()), file_url(&self.0));
        let failed = move |why: String| {
            verbosity.tell(format_args!("no browser could be opened ({why}): open the address"));
        };
        let opens = move || try_all(&commands, &url).unwrap_or_else(failed);
        if let Err(error) = thread::Builder::new().name("browser".to_owned()).spawn(opens) {
            failed(error.to_string());
        }
    }

    /// Removes the file. Later calls do nothing.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The commands to try, each as a list of words. `BROWSER` contains several commands, separated by
/// colons. In a command, `%s` stands for the address to open.
fn commands(chosen: Option<&str>) -> Vec<Vec<String>> {
    let all: Vec<_> = chosen.map_or(OPENERS.to_vec(), |chosen| chosen.split(':').collect());
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    all.into_iter().map(words).filter(|words| !words.is_empty()).collect()
}

/// A command with the address that it has to open.
fn with_url(command: &[String], url: &str) -> Vec<String> {
    let mut words: Vec<_> = command.iter().map(|word| word.replace("%s", url)).collect();
    if words == command {
        words.push(url.to_owned());
    }
    words
}

/// Tries one command after the other, until one has succeeded. If none has, returns why.
fn try_all(commands: &[Vec<String>], url: &str) -> Result<(), String> {
    let mut why = Vec::new();
    for command in commands {
        let words = with_url(command, url);
        let mut started = Command::new(&words[0]);
        // A signal that interrupts this process is not meant for a browser that the command may
        // have started.
        started.args(&words[1..]);
        set_apart(&mut started);
        started.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match started.status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => why.push(format!("{}: {status}", words[0])),
            Err(error) => why.push(format!("{}: {error}", words[0])),
        }
    }
    Err(why.join(", "))
}

fn file_url(path: &Path) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    format!("file://{}", percent_encode(path_bytes(path), ESCAPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_called_as_its_user_says() {
        for (chosen, expected) in [
            ("firefox", "firefox U"),
            ("w3m -T text/html", "w3m -T text/html U"),
            ("a --at=%s b:: c", "a --at=U b|c U"),
        ] {
            let words = commands(Some(chosen));
            let called: Vec<_> = words.iter().map(|words| with_url(words, "U").join(" ")).collect();
            assert_eq!(called.join("|"), expected);
        }
        assert!(!commands(None).is_empty());
    }

    #[test]
    fn a_path_is_one_whatever_it_has_in_it() {
        let url = file_url(Path::new("/tmp/a b#c?%ö/web.1-2.html"));
        assert_eq!(url, "file:///tmp/a%20b%23c%3F%25%C3%B6/web.1-2.html");
    }
}
