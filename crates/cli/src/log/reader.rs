//! Reading what brokers have logged, and what they log afterwards.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use navlock_platform::file::careful;

use super::rotating::{LIMIT, is_at, predecessor};

/// A log that is read from its beginning, across the ends of its files. A file that has come and gone
/// between two looks is not read.
pub(crate) struct Reader {
    path: PathBuf,
    /// The file that is being read, and how far it was read.
    open: Option<(File, u64)>,
    /// The beginning of the last line, which was not complete yet.
    rest: Vec<u8>,
}

impl Reader {
    /// A reader at the beginning of all files.
    pub(crate) fn new(path: &Path) -> Self {
        let open = open(&predecessor(path)).map(|file| (file, 0));
        Self { path: path.to_owned(), open, rest: Vec::new() }
    }

    /// The whole lines that have come since the last time.
    pub(crate) fn lines(&mut self) -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        loop {
            self.read_on(&mut lines)?;
            if self.open.as_ref().is_some_and(|(file, _)| is_at(file, &self.path)) {
                return Ok(lines);
            }
            let Some(next) = open(&self.path) else { return Ok(lines) };
            // This reads lines that were written between the two looks.
            self.read_on(&mut lines)?;
            self.open = Some((next, 0));
        }
    }

    fn read_on(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        let Some((file, at)) = &mut self.open else { return Ok(()) };
        if file.metadata()?.len() < *at {
            // Somebody has emptied the file.
            *at = 0;
        }
        let mut read = Vec::new();
        file.seek(SeekFrom::Start(*at))?;
        // A file may be longer by this much if it was written to while it was read.
        *at += Read::take(file, 2 * LIMIT).read_to_end(&mut read)? as u64;
        self.rest.extend(read);
        if let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') {
            lines.extend(self.rest.drain(..=end));
        }
        Ok(())
    }
}

/// The last of these lines.
pub(crate) fn last(lines: &[u8], count: usize) -> &[u8] {
    let ends = lines.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    // The end of the line before the first line that is wanted.
    match ends.map(|(at, _)| at).nth(count) {
        Some(end) => &lines[end + 1..],
        None => lines,
    }
}

/// These lines, in which control characters are spaces, so that they are only text for a terminal.
pub(crate) fn shown(lines: &[u8]) -> Vec<u8> {
    let is_shown = |byte: u8| byte == b'\n' || !byte.is_ascii_control();
    lines.iter().map(|&byte| if is_shown(byte) { byte } else { b' ' }).collect()
}

fn open(path: &Path) -> Option<File> {
    // This does not wait for a writer if the path is a pipe.
    let file = careful().read(true).open(path).ok()?;
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    fn text(reader: &mut Reader) -> String {
        String::from_utf8(reader.lines().unwrap()).unwrap()
    }

    #[test]
    fn whole_lines_are_read_on_over_the_ends_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let append = |text: &str| {
            let mut file = File::options().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let rotate = || fs::rename(&path, predecessor(&path)).unwrap();
        let mut early = Reader::new(&path);
        assert_eq!(text(&mut early), "");
        append("1\n");
        rotate();
        append("2\n3");
        let mut late = Reader::new(&path);
        assert_eq!(text(&mut late), "1\n2\n");
        append("3\n");
        rotate();
        append("4\n");
        assert_eq!(text(&mut late), "33\n4\n");
        assert_eq!(text(&mut late), "");
        fs::remove_file(&path).unwrap();
        append("7\n");
        assert_eq!(text(&mut late), "7\n");
        fs::write(&path, "").unwrap();
        assert_eq!(text(&mut late), "");
        append("8\n");
        assert_eq!(text(&mut late), "8\n");
    }

    #[test]
    fn the_last_lines_are_as_many_as_there_are() {
        for (count, lines) in
            [(0, ""), (1, "c\n"), (2, "b\nc\n"), (3, "a\nb\nc\n"), (9, "a\nb\nc\n")]
        {
            assert_eq!(last(b"a\nb\nc\n", count), lines.as_bytes(), "{count}");
        }
    }

    #[test]
    fn control_characters_are_not_shown_on_a_terminal() {
        assert_eq!(shown(b"a\x1b[31m\x07b\n"), b"a [31m b\n");
    }
}
