//! Signals.

/// What a process can be told by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(i32);

macro_rules! signals {
    ($($(#[$doc:meta])* $name:ident = $of:ident;)*) => {
        impl Signal {
            $($(#[$doc])* pub const $name: Self = Self(rustix::process::Signal::$of.as_raw());)*
        }
    };
}

signals! {
    /// The terminal has gone.
    HANG_UP = HUP;
    /// ^C.
    INTERRUPT = INT;
    /// ^\.
    QUIT = QUIT;
    /// It is to end.
    TERMINATE = TERM;
    /// It is ended.
    KILL = KILL;
    /// It stands still.
    STOP = STOP;
    /// It goes on.
    CONTINUE = CONT;
    /// It stands still, if it has nothing against it.
    SUSPEND = TSTP;
    /// The terminal has another size.
    RESIZED = WINCH;
    /// A child has ended.
    CHILD = CHILD;
}

impl Signal {
    /// Its number.
    pub fn number(self) -> i32 {
        self.0
    }

    #[cfg(feature = "command")]
    pub(crate) fn of_number(number: i32) -> Self {
        Self(number)
    }

    /// `None` if no program is sent it by its number.
    pub(crate) fn raw(self) -> Option<rustix::process::Signal> {
        rustix::process::Signal::from_named_raw(self.0)
    }
}
