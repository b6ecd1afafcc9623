//! The timer of a hold.

use std::{io, time::Duration};

use navlock_platform::{clock::Alarm, wait::BorrowedSource};

use crate::time::uptime;

/// The longest time: a hundred years, which the kernel's clocks can still count.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A timer on a clock that goes on while the machine is suspended. So a hold whose time has run out
/// meanwhile ends as soon as the machine goes on.
pub(super) struct Timer {
    ends: Duration,
    alarm: Alarm,
}

impl Timer {
    /// A timer that has not been set, and never runs out.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { ends: Duration::MAX, alarm: Alarm::new()? })
    }

    /// Sets the timer to run out after this time, but never sooner than it was set before.
    pub(super) fn extend(&mut self, time: Duration) -> io::Result<()> {
        let ends = uptime().saturating_add(time.min(LONGEST));
        if self.ends == Duration::MAX || ends > self.ends {
            self.alarm.set(ends)?;
            self.ends = ends;
        }
        Ok(())
    }

    pub(super) fn left(&self) -> Duration {
        self.ends.saturating_sub(uptime())
    }

    /// Readable when the time is over.
    pub(super) fn source(&self) -> Option<BorrowedSource<'_>> {
        self.alarm.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_long_and_none_is_shortened() {
        let mut timer = Timer::new().unwrap();
        timer.extend(Duration::from_secs(60)).unwrap();
        timer.extend(Duration::from_secs(1)).unwrap();
        assert!(timer.left() > Duration::from_secs(50));
        timer.extend(Duration::MAX).unwrap();
        assert!(timer.left() > LONGEST / 2);
    }
}
