//! A thread that writes lines, so that nobody else waits for a disk, a pipe or a journal.
//!
//! Between the thread and those who log there is a queue of bounded length. A line that does not
//! fit, or that cannot be written, is dropped and counted. The next line that is written says how
//! many lines were dropped.

use std::{
    io::{self, Write},
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How many lines may wait to be written.
const QUEUE: usize = 1024;

/// The longest line, in bytes. The rest is cut off. Lines may contain long names of locks.
const LONGEST: usize = 4096;

/// The place where lines are logged.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    queue: SyncSender<Said>,
    dropped: Arc<AtomicU64>,
    has_level: bool,
}

#[derive(Debug)]
enum Said {
    Line(Vec<u8>),
    /// A message is sent here when all earlier lines are written.
    Flush(SyncSender<()>),
}

impl Sink {
    /// A sink that writes lines to `out`. If `has_level` is set, lines begin with their level as
    /// `<N>`, as the journal wants it.
    pub(super) fn new(out: impl Write + Send + 'static, has_level: bool) -> Self {
        let (queue, said) = mpsc::sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let thread = thread::Builder::new().name("navlock-log".to_owned());
        // If there is no thread to be had, all lines are dropped and counted.
        let _ = thread.spawn(move || write_all(&said, out, &counter));
        Self { queue, dropped, has_level }
    }

    /// How many lines were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits until all that was logged is written, but not for longer than this.
    pub(super) fn flush(&self, timeout: Duration) {
        let (done, is_done) = mpsc::sync_channel(1);
        if self.queue.try_send(Said::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(timeout);
        }
    }

    fn say(&self, line: Vec<u8>) {
        if self.queue.try_send(Said::Line(line)).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// Writes lines until nobody can log any more.
fn write_all(said: &Receiver<Said>, mut out: impl Write, dropped: &AtomicU64) {
    let (mut told, mut is_torn) = (0, false);
    for one in said {
        match one {
            Said::Line(line) => {
                let missing = dropped.load(Relaxed);
                let mut text = head(missing - told, is_torn).into_bytes();
                text.extend(line);
                is_torn = out.write_all(&text).and_then(|()| out.flush()).is_err();
                if is_torn {
                    dropped.fetch_add(1, Relaxed);
                } else {
                    told = missing;
                }
            }
            // If the one that asked has given up, nobody receives this.
            Said::Flush(done) => _ = done.try_send(()),
        }
    }
}

/// The text before the next line. It says how many lines are missing. If a line was written only in
/// part, it also ends that line.
fn head(missing: u64, is_torn: bool) -> String {
    let end = if is_torn { "\n" } else { "" };
    match missing {
        0 => end.to_owned(),
        1 => format!("{end}(1 line before this one is missing)\n"),
        missing => format!("{end}({missing} lines before this one are missing)\n"),
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Entry<'a>;

    fn make_writer(&'a self) -> Entry<'a> {
        Entry { sink: self, line: Vec::new() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Entry<'a> {
        let line = if self.has_level { priority(metadata).as_bytes().to_vec() } else { Vec::new() };
        Entry { sink: self, line }
    }
}

/// The journal's number for a level (sd-daemon(3)).
fn priority(metadata: &Metadata<'_>) -> &'static str {
    match *metadata.level() {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// One line, which is sent when this value is dropped.
pub(super) struct Entry<'a> {
    sink: &'a Sink,
    line: Vec<u8>,
}

impl Write for Entry<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LONGEST.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut line = mem::take(&mut self.line);
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        // Line breaks are replaced, so that texts of others in the line cannot add a line to the
        // log.
        for byte in &mut line {
            if byte.is_ascii_control() {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        self.sink.say(line);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};

    use super::*;

    /// What is written, once it may be.
    #[derive(Clone)]
    struct Gate {
        begins: Arc<Barrier>,
        opens: Arc<Barrier>,
        is_open: bool,
        fails: Arc<Mutex<bool>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Gate {
        fn new() -> Self {
            let [begins, opens] = [(); 2].map(|()| Arc::new(Barrier::new(2)));
            let (fails, written) = (Arc::default(), Arc::default());
            Self { begins, opens, is_open: false, fails, written }
        }

        fn text(&self) -> String {
            String::from_utf8(self.written.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !mem::replace(&mut self.is_open, true) {
                self.begins.wait();
                self.opens.wait();
            }
            if *self.fails.lock().unwrap() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn say(sink: &Sink, text: &str) {
        writeln!(sink.make_writer(), "{text}").unwrap();
    }

    #[test]
    fn logging_does_not_wait_for_a_stuck_writer_and_missing_lines_are_counted() {
        let gate = Gate::new();
        let sink = Sink::new(gate.clone(), false);
        say(&sink, "first");
        gate.begins.wait();
        // The thread waits for the gate, and nothing is taken out of the queue.
        for _ in 0..QUEUE + 7 {
            say(&sink, "more");
        }
        assert_eq!(sink.dropped(), 7);
        gate.opens.wait();
        // While the queue is full there is no room for that either.
        while gate.text().lines().count() < QUEUE + 2 {
            sink.flush(Duration::from_secs(30));
        }
        let text = gate.text();
        assert!(text.starts_with("first\n(7 lines before this one are missing)\nmore\n"));
        assert_eq!(text.matches("missing").count(), 1);
    }

    #[test]
    fn a_line_that_cannot_be_written_is_missing_and_later_lines_are_written() {
        let gate = Gate::new();
        let sink = Sink::new(Gate { is_open: true, ..gate.clone() }, false);
        *gate.fails.lock().unwrap() = true;
        say(&sink, "lost");
        sink.flush(Duration::from_secs(30));
        *gate.fails.lock().unwrap() = false;
        say(&sink, "kept");
        sink.flush(Duration::from_secs(30));
        assert_eq!(gate.text(), "\n(1 line before this one is missing)\nkept\n");
        assert_eq!(sink.dropped(), 1);
    }

    #[test]
    fn a_line_is_one_line_and_not_longer_than_it_may_be() {
        let gate = Gate::new();
        let sink = Sink::new(Gate { is_open: true, ..gate.clone() }, false);
        say(&sink, "one\ntwo\u{1b}[31m");
        say(&sink, &"x".repeat(3 * LONGEST));
        sink.flush(Duration::from_secs(30));
        let text = gate.text();
        assert!(text.starts_with("one two [31m\nxxx"), "{}", &text[..40]);
        assert_eq!(text.len(), "one two [31m\n".len() + LONGEST + 1);
    }
}
