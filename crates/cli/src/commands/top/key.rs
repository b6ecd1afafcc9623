//! The keys of a keyboard.

/// A key, as far as any of them means anything.
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
