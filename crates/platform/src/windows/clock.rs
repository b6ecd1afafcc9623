//! The clocks of the machine, which all its processes share.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::sync::OnceLock;

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

/// Nanoseconds on a clock that never goes back. It goes on while the machine is suspended.
pub fn monotonic() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    let frequency = *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: There is room for what is written. It cannot fail since Windows XP.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        frequency.unsigned_abs().max(1)
    });
    let mut count = 0;
    // SAFETY: As above.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    let nanoseconds = u128::from(count.unsigned_abs()) * 1_000_000_000 / u128::from(frequency);
    // The clock counts from the start of the machine, and lasts for centuries.
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

/// [`monotonic`], which costs little to read here.
pub fn recent() -> u64 {
    monotonic()
}

/// Nanoseconds since the start of the machine, with the time in which it was suspended.
pub fn uptime() -> u64 {
    monotonic()
}

/// How many nanoseconds the [`monotonic`] clock of a process is ahead of ours. `None` if that is not known.
/// Here all processes have the same clock.
pub fn ahead(_: u32) -> Option<i64> {
    Some(0)
}

#[cfg(feature = "command")]
pub use self::alarm::Alarm;

#[cfg(feature = "command")]
mod alarm {
    use std::{io, time::Duration};

    use crate::wait::BorrowedSource;

    /// A source that becomes readable at a time. There is none here that counts the time in which
    /// the machine was suspended.
    #[derive(Debug)]
    pub struct Alarm;

    impl Alarm {
        /// An alarm that has not been set.
        ///
        /// # Errors
        ///
        /// None here.
        pub fn new() -> io::Result<Self> {
            Ok(Self)
        }

        /// Sets the alarm to this time since the start of the machine.
        ///
        /// # Errors
        ///
        /// None here.
        pub fn set(&self, _: Duration) -> io::Result<()> {
            Ok(())
        }

        /// None: the caller has to look at the clock now and then.
        #[expect(clippy::unused_self, reason = "as elsewhere")]
        pub fn source(&self) -> Option<BorrowedSource<'_>> {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_clock_goes_on_at_the_pace_of_all_others() {
        let (before, began) = (super::monotonic(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(30));
        let passed = super::monotonic() - before;
        assert!(
            passed >= 29_000_000 && u128::from(passed) <= began.elapsed().as_nanos() + 1_000_000
        );
    }
}
