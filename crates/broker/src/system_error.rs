//! Why the system refused something.

use std::{error::Error, fmt, io, time::Duration};

/// Why the system refused something. Unlike [`io::Error`], this error can be copied and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemError {
    kind: io::ErrorKind,
    code: Option<i32>,
}

impl SystemError {
    /// The kind of this error.
    pub fn kind(self) -> io::ErrorKind {
        self.kind
    }

    /// The system's number of this error (`errno`), if the error came from the system.
    pub fn raw_os_error(self) -> Option<i32> {
        self.code
    }
}

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> Self {
        Self { kind: error.kind(), code: error.raw_os_error() }
    }
}

impl From<io::ErrorKind> for SystemError {
    fn from(kind: io::ErrorKind) -> Self {
        Self { kind, code: None }
    }
}

impl From<SystemError> for io::Error {
    /// The same error as an error of the standard library, for callers who look for one.
    fn from(error: SystemError) -> Self {
        error.code.map_or_else(|| error.kind.into(), Self::from_raw_os_error)
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            // The system's own text is used, because a kind describes most errors only in general.
            Some(code) => io::Error::from_raw_os_error(code).fmt(f),
            None => self.kind.fmt(f),
        }
    }
}

impl Error for SystemError {}

/// A duration, as a text for people.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 0.1 => format!("{} ms", time.as_millis()),
        seconds if seconds < 10.0 && time.subsec_millis() >= 100 => format!("{seconds:.1} seconds"),
        1.0 => "1 second".to_owned(),
        seconds => format!("{seconds:.0} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_keeps_its_number_and_its_words() {
        let nobody = io::Error::from_raw_os_error(2);
        let error = SystemError::from(io::Error::from_raw_os_error(2));
        assert_eq!((error.raw_os_error(), error.kind()), (Some(2), io::ErrorKind::NotFound));
        assert_eq!(error.to_string(), nobody.to_string());
        assert_eq!(error, SystemError::from(nobody));
        let again = io::Error::from(error);
        assert_eq!((again.raw_os_error(), again.kind()), (Some(2), io::ErrorKind::NotFound));
        let error = SystemError::from(io::ErrorKind::NotFound);
        assert_eq!((error.raw_os_error(), &*error.to_string()), (None, "entity not found"));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn no_time_is_said_to_be_zero_seconds() {
        for (milliseconds, said) in [
            (0, "0 ms"),
            (50, "50 ms"),
            (300, "0.3 seconds"),
            (1000, "1 second"),
            (1500, "1.5 seconds"),
            (10_000, "10 seconds"),
            (15_400, "15 seconds"),
        ] {
            assert_eq!(time(Duration::from_millis(milliseconds)), said);
        }
    }
}
