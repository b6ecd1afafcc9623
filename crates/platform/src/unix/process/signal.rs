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
    /// The process is asked to end.
    TERMINATE = TERM;
    /// The process is ended.
    KILL = KILL;
    /// The process is stopped.
    STOP = STOP;
    /// The process goes on.
    CONTINUE = CONT;
    /// The process is asked to stop.
    SUSPEND = TSTP;
    /// The terminal has another size.
    RESIZED = WINCH;
    /// A child has ended.
    CHILD = CHILD;
}

impl Signal {
    /// The signal's number.
    pub fn number(self) -> i32 {
        self.0
    }

    #[cfg(feature = "command")]
    pub(crate) fn of_number(number: i32) -> Self {
        Self(number)
    }

    /// `None` if programs do not send this signal by its number.
    pub(crate) fn raw(self) -> Option<rustix::process::Signal> {
        use rustix::process::Signal;

        #[cfg(all(target_os = "linux", feature = "command"))]
        if (nix::libc::SIGRTMIN()..=nix::libc::SIGRTMAX()).contains(&self.0) {
            #[allow(unsafe_code, reason = "no safe call makes a real-time signal")]
            // SAFETY: The C library leaves these numbers to programs.
            return Some(unsafe { Signal::from_raw_unchecked(self.0) });
        }
        Signal::from_named_raw(self.0)
    }
}
