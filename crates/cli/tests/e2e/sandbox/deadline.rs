//! Waiting with a deadline: for lines, for the end of a process, for anything else.

use std::{
    io::Read,
    process::{Child, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use navlock_platform::wait::{Interest, Source};

use crate::worker::TIMEOUT;

/// The lines that a process writes, each of which has to come in good time.
pub(crate) struct Lines<R> {
    from: R,
    heard: Vec<u8>,
}

impl<R: Read + Source> Lines<R> {
    /// The lines that come out of this stream.
    pub(crate) fn of(from: R) -> Self {
        Self { from, heard: Vec::new() }
    }
}

impl<R: Read + Source> Iterator for Lines<R> {
    type Item = String;

    /// The next line, without its end; `None` if nobody writes any more.
    fn next(&mut self) -> Option<String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(end) = self.heard.iter().position(|&byte| byte == b'\n') {
                let line: Vec<_> = self.heard.drain(..=end).collect();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let [ready] =
                navlock_platform::wait::wait([(self.from.source(), Interest::READ)], Some(left))
                    .unwrap();
            assert!(ready.any(), "no line in {TIMEOUT:?}; the last one: {:?}", self.heard);
            let mut bytes = [0; 4096];
            let length = self.from.read(&mut bytes).unwrap();
            self.heard.extend_from_slice(&bytes[..length]);
            if length == 0 {
                let rest = std::mem::take(&mut self.heard);
                return (!rest.is_empty()).then(|| String::from_utf8(rest).unwrap());
            }
        }
    }
}

/// Waits until something is true that nothing announces.
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is() {
        assert!(Instant::now() < deadline, "not in {TIMEOUT:?}: {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// Waits for the end of a process, which must come.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let mut status = None;
    eventually("the process ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}
