//! Times as people read them, and the clock of terms.

use std::time::Duration;

use navlock_platform::clock;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The age of something that goes on, in no more than two units: `12s`, `3m`, `3m05s`, `2h10m`,
/// `4d`, `4d03h`.
pub(crate) fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(seconds, MINUTE, "m", 1, "s"),
        HOUR..DAY => two(seconds, HOUR, "h", MINUTE, "m"),
        _ => two(seconds, DAY, "d", HOUR, "h"),
    }
}

fn two(seconds: u64, unit: u64, large: &str, part: u64, small: &str) -> String {
    match seconds % unit / part {
        0 => format!("{}{large}", seconds / unit),
        parts => format!("{}{large}{parts:02}{small}", seconds / unit),
    }
}

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

/// The time in milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_going_by_is_told_in_two_units_at_most() {
        for (seconds, told) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (185, "3m05s"),
            (3600, "1h"),
            (3659, "1h"),
            (7860, "2h11m"),
            (86_400, "1d"),
            (100_000, "1d03h"),
        ] {
            assert_eq!(elapsed(Duration::from_secs(seconds)), told);
        }
        assert_eq!(elapsed(Duration::MAX), "213503982334601d07h");
    }

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
