//! The keeper's end of its connection to the asker.

use std::{
    fmt::Display,
    io::{self, Read, Write},
    process,
    sync::mpsc::{Receiver, channel},
    thread,
};

use navlock_platform::{
    inheritance::close_inherited,
    socket::{Stream, of_output},
};

use crate::exit::{Failure, UNREACHABLE, USAGE};

/// The process that has started this one.
pub(super) struct Asker {
    stream: Stream,
    /// Receives a message when the keeper has to go on without the asker.
    released: Receiver<()>,
}

impl Asker {
    /// The asker that this process's stdout is connected to. If the asker ends before it has
    /// released the keeper, the keeper ends at once, and with it all its locks and requests.
    pub(super) fn take() -> Result<Self, Failure> {
        // This comes before anything is opened. Descriptors that a service manager has passed were
        // not meant for this process.
        let _ = close_inherited();
        let stream = of_output().map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => {
                Failure::new(USAGE, "only 'navlock hold' itself starts its keeper")
            }
            _ => cannot(error),
        })?;
        let mut watched = stream.try_clone().map_err(cannot)?;
        let (release, released) = channel();
        let watch = move || {
            let mut byte = [0];
            match watched.read_exact(&mut byte) {
                Ok(()) => _ = release.send(()),
                // The kernel tells the broker of the end of this process, as it does when any
                // process ends.
                Err(_) => process::exit(1),
            }
        };
        let thread = thread::Builder::new().name("navlock-asker".to_owned());
        thread.spawn(watch).map_err(cannot)?;
        Ok(Self { stream, released })
    }

    /// Lets the asker write this text, and returns when it has done so.
    pub(super) fn hand_over(&self, text: &[u8]) {
        self.tell(text);
        // If this fails, the other thread is about to end this process.
        let _ = self.released.recv();
    }

    pub(super) fn tell(&self, bytes: &[u8]) {
        // If the asker is gone, the thread that reads from it notices that.
        let _ = (&self.stream).write_all(bytes);
    }
}

pub(super) fn cannot(error: impl Display) -> Failure {
    Failure::new(UNREACHABLE, format_args!("cannot keep locks in the background: {error}"))
}
