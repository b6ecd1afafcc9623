//! Times as people read them, and the clock of terms.

use std::time::Duration;

pub(crate) use navlock::host::{elapsed, milliseconds as millis, seconds};
use navlock_platform::clock;

/// The time that something took, to about three digits: `85µs`, `12.3ms`, `1.25s`. Longer times are
/// written like [`elapsed`].
pub(crate) fn taken(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros}µs"),
        1_000..1_000_000 => format!("{:.1}ms", time.as_secs_f64() * 1e3),
        1_000_000..60_000_000 => format!("{:.2}s", time.as_secs_f64()),
        _ => elapsed(time),
    }
}

/// The time since the start of the machine, on the clock of [`navlock::host::Term`], which goes on
/// while the machine is suspended.
pub(crate) fn uptime() -> Duration {
    Duration::from_nanos(clock::uptime())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_was_taken_is_told_in_its_unit() {
        for (micros, told) in [
            (0, "0µs"),
            (999, "999µs"),
            (12_340, "12.3ms"),
            (1_250_000, "1.25s"),
            (61_000_000, "1m01s"),
        ] {
            assert_eq!(taken(Duration::from_micros(micros)), told);
        }
    }
}
