//! The keys of a keyboard.

/// A key, as far as it means anything here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    /// ^C.
    Interrupt,
    /// ^Z.
    Suspend,
    /// ^L.
    Redraw,
}
