//! The terminal. It is taken, drawn on, and given back as it was, however the program ends.

use std::{
    io::{self, BufWriter, IsTerminal, Stdin, Stdout, Write},
    mem::ManuallyDrop,
    panic,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crossterm::{
    cursor::Show,
    event::{self, Event, KeyEvent, KeyEventKind, KeyModifiers},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use navlock_platform::wait::{self, Interest, Source};
use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    terminal::{Terminal, TerminalOptions, Viewport},
};
use ratatui_crossterm::CrosstermBackend;

use super::keys::{INTERRUPT, Key, REDRAW, SUSPEND};
use crate::terminal;

/// How many keys are read before the screen is drawn again.
const MOST: usize = 1000;

/// Whether this program has the terminal at the moment.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal. It is given back when this value is dropped.
pub(super) struct Screen {
    /// This is never dropped: its `drop` would write to the error stream if the terminal has gone,
    /// and would panic if that stream is the terminal as well. The `drop` of [`Screen`] does
    /// everything that this `drop` would do.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<BufWriter<Stdout>>>>,
    size: (u16, u16),
}

/// Whether there is a terminal that can be drawn on.
pub(super) fn is_there() -> bool {
    io::stdin().is_terminal() && terminal::size(&io::stdout()).is_some()
}

impl Screen {
    pub(super) fn take() -> io::Result<Self> {
        // The message of a panic has to be readable on the screen that stays.
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            usual(panic);
        }));
        enter()?;
        let size = size();
        let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, io::stdout()));
        let viewport = Viewport::Fixed(Rect::new(0, 0, size.0, size.1));
        let terminal = Terminal::with_options(backend, TerminalOptions { viewport });
        match terminal {
            Ok(terminal) => {
                let mut screen = Self { terminal: ManuallyDrop::new(terminal), size };
                screen.redraw()?;
                Ok(screen)
            }
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// The size of the terminal now, in columns and rows.
    pub(super) fn size(&mut self) -> io::Result<(u16, u16)> {
        let size = size();
        if size != self.size {
            self.size = size;
            self.terminal.resize(Rect::new(0, 0, size.0, size.1))?;
        }
        Ok(size)
    }

    /// # Errors
    ///
    /// If the terminal cannot be written to, or if another thread has panicked and the terminal
    /// shows its message.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        if !IS_TAKEN.load(Ordering::SeqCst) {
            return Err(io::Error::other("a thread of it has ended, as is told above"));
        }
        self.terminal.draw(|frame| draw(frame.buffer_mut())).map(drop)
    }

    /// Lets the whole screen be drawn anew, whatever is on it.
    pub(super) fn redraw(&mut self) -> io::Result<()> {
        self.terminal.hide_cursor()?;
        self.terminal.clear()
    }

    /// Takes the terminal again, after it was given back or a shell has had it meanwhile.
    pub(super) fn return_to(&mut self) -> io::Result<()> {
        enter()?;
        self.size()?;
        self.redraw()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn size() -> (u16, u16) {
    let (columns, rows) = terminal::size(&io::stdout()).unwrap_or((80, 24));
    let number = |number| u16::try_from(number).unwrap_or(u16::MAX);
    // A screen with more cells than the number type can count is drawn on in part.
    let columns = number(columns);
    (columns, number(rows).min(u16::MAX / columns.max(1)))
}

fn enter() -> io::Result<()> {
    // crossterm remembers the state of the terminal before raw mode. A shell may have changed that
    // state since.
    if IS_TAKEN.swap(true, Ordering::SeqCst) {
        disable_raw_mode()?;
    }
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Gives the terminal back as it was, if this program has it. Errors are ignored, because they mean
/// that the terminal has gone.
pub(super) fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

/// Whether the terminal has hung up.
pub(super) fn has_gone() -> bool {
    let keys = io::stdin();
    // Only a signal could end this call early, and the call does not wait.
    let now = wait::wait([(keys.source(), Interest::END)], Some(Duration::ZERO));
    now.is_ok_and(|[keys]| keys.ended)
}

/// The stream from which keys are read.
pub(super) fn keys() -> Stdin {
    io::stdin()
}

/// The keys that were pressed.
///
/// # Errors
///
/// If the terminal has gone.
pub(super) fn pressed() -> io::Result<Vec<Key>> {
    let mut keys = Vec::new();
    while keys.len() < MOST && event::poll(Duration::ZERO)? {
        if let Event::Key(event) = event::read()? {
            keys.extend(key(event));
        }
    }
    Ok(keys)
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        Key::Char('c') if is_control => Some(INTERRUPT),
        Key::Char('z') if is_control => Some(SUSPEND),
        Key::Char('l') if is_control => Some(REDRAW),
        Key::Char('h') if is_control => Some(Key::Backspace),
        Key::Char(_) if is_control || event.modifiers.contains(KeyModifiers::ALT) => None,
        Key::Right => Some(Key::Enter),
        Key::Left => Some(Key::Esc),
        key => Some(key),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs::File, io::Read, process::Command};

    use rustix::{
        fs::{CWD, Mode, OFlags, openat},
        pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
        termios::{LocalModes, tcgetattr},
    };

    use super::*;

    const ROLE: &str = "NAVLOCK_TEST_TERMINAL";

    /// The body of the next test, which runs it as a process of its own.
    #[test]
    #[ignore = "it panics: the next test runs it in a process of its own"]
    fn panics_on_a_terminal() {
        if std::env::var_os(ROLE).is_some() {
            let mut screen = Screen::take().unwrap();
            screen.draw(|_| panic!("it broke here")).unwrap();
        }
    }

    #[test]
    fn a_panic_is_told_on_a_terminal_that_was_given_back() {
        let mut ours = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap();
        let how = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = File::from(openat(CWD, path, how, Mode::empty()).unwrap());
        let before = tcgetattr(&ours).unwrap().local_modes;
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = "commands::top::terminal::tests::panics_on_a_terminal";
        command.args(["--exact", test, "--ignored", "--nocapture"]).env(ROLE, "");
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap());
        let mut child = command.stderr(theirs).spawn().unwrap();
        drop(command);
        let mut seen = Vec::new();
        // That everybody has left the terminal is told as an error.
        let _ = ours.read_to_end(&mut seen);
        assert!(!child.wait().unwrap().success());
        let seen = String::from_utf8_lossy(&seen);
        let at = |what: &str| seen.find(what).unwrap_or_else(|| panic!("{what:?} in {seen:?}"));
        assert!(at("\u{1b}[?1049h") < at("\u{1b}[?1049l"), "{seen:?}");
        assert!(at("\u{1b}[?1049l") < at("it broke here"), "{seen:?}");
        assert!(before.contains(LocalModes::ICANON | LocalModes::ECHO));
        assert_eq!(tcgetattr(&ours).unwrap().local_modes, before);
    }
}
