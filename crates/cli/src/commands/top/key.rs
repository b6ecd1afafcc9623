//! The keys of a keyboard.

/// The keys that mean anything here.
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
