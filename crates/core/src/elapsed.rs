//! Spans of time as people read them.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The age of something that goes on, in no more than two units: `12s`, `3m`, `3m05s`, `2h10m`,
/// `4d`, `4d03h`.
///
/// ```
/// # use navlock::host;
/// # use std::time::Duration;
/// assert_eq!(host::elapsed(Duration::from_secs(185)), "3m05s");
/// ```
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(seconds, MINUTE, "m", 1, "s"),
        HOUR..DAY => two(seconds, HOUR, "h", MINUTE, "m"),
        _ => two(seconds, DAY, "d", HOUR, "h"),
    }
}

/// A span of time that was set, in seconds: `1.82 s`.
///
/// ```
/// # use navlock::host;
/// # use std::time::Duration;
/// assert_eq!(host::seconds(Duration::from_millis(1820)), "1.82 s");
/// ```
pub fn seconds(time: Duration) -> String {
    // No floating point: 1.0 + 0.82 is 1.8199999999999998 there.
    let text = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A span of time in whole milliseconds, as programs are told it.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn two(seconds: u64, unit: u64, large: &str, part: u64, small: &str) -> String {
    match seconds % unit / part {
        0 => format!("{}{large}", seconds / unit),
        parts => format!("{}{large}{parts:02}{small}", seconds / unit),
    }
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
    fn a_time_that_was_set_is_told_as_it_was_set() {
        for (millis, told) in
            [(0, "0 s"), (1, "0.001 s"), (1820, "1.82 s"), (10_000, "10 s"), (100_500, "100.5 s")]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), told);
        }
        assert_eq!(seconds(Duration::from_secs_f64(1.82)), "1.82 s");
    }
}
