//! The terminal behind a stream: whether there is one, its size, and whether to use colours.

use std::{
    env,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use anstyle::Style;
use clap::ColorChoice;
use navlock_platform::{
    terminal,
    wait::{self, Interest, Source},
};

/// The size of the terminal behind this stream, in columns and rows. `None` if there is no
/// terminal, or if the terminal can only be written forward.
pub(crate) fn size(stream: &impl Source) -> Option<(usize, usize)> {
    if env::var_os("TERM").is_some_and(|term| term == "dumb") {
        return None;
    }
    let (columns, rows) = terminal::size(stream)?;
    // A terminal that does not know its size counts as having the usual size.
    let or = |number: u16, usual| if number == 0 { usual } else { usize::from(number) };
    Some((or(columns, 80), or(rows, 24)))
}

/// Whether this process is in the foreground of this terminal, so that it does not draw over what
/// somebody types into another program.
pub(crate) fn is_in_front(stream: &impl Source) -> bool {
    terminal::is_in_front(stream)
}

/// Whether to use colours on the output stream.
pub(crate) fn colours(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let forbidden = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let stdout = io::stdout();
            let is_one = stdout.is_terminal() && size(&stdout).is_some() && !forbidden;
            is_one && terminal::understands_colours(&stdout)
        }
    }
}

/// The text in a style, if there are to be colours.
pub(crate) fn painted(text: &str, style: Style, colours: bool) -> String {
    if colours && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// Writes all bytes to the output stream. If the reader has gone, because it has read enough, there
/// is an error of the kind `BrokenPipe`.
pub(crate) fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Waits for this time, but returns as soon as the reader of the output has gone. Returns whether
/// it has gone.
pub(crate) fn reader_has_gone(time: Duration) -> bool {
    let out = io::stdout();
    // The system reports the end of a stream even if it is not asked for.
    let came = wait::wait([(out.source(), Interest::END)], Some(time));
    // Only a signal with a handler could end this call earlier, and there are no handlers.
    came.is_ok_and(|[out]| out.ended)
}
