//! Numbers about events, kept in a bounded amount of memory.

use std::time::Duration;

/// The number of seconds over which a rate is taken.
const SECONDS: u64 = 10;

/// How often something happens, over the last ten seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rate {
    first: Option<u64>,
    /// The last seconds in which something has happened, counted from any moment, and how often it has.
    counts: Vec<(u64, u64)>,
}

impl Rate {
    /// Adds this many events in this second.
    pub(crate) fn add(&mut self, second: u64, count: u64) {
        self.first.get_or_insert(second);
        self.counts.retain(|(at, _)| second.saturating_sub(*at) < SECONDS);
        match self.counts.iter_mut().find(|(at, _)| *at == second) {
            Some((_, known)) => *known = known.saturating_add(count),
            None => self.counts.push((second, count)),
        }
    }

    /// The events per second, as of this second.
    pub(crate) fn per_second(&self, second: u64) -> f64 {
        let Some(first) = self.first else { return 0.0 };
        let last = self.counts.iter().filter(|(at, _)| second.saturating_sub(*at) < SECONDS);
        let sum = last.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        let over = second.saturating_sub(first).saturating_add(1).min(SECONDS);
        #[expect(clippy::cast_precision_loss, reason = "it is told to three digits")]
        let rate = sum as f64 / over as f64;
        rate
    }
}

/// The number of parts into which each power of two of times is divided.
const PARTS: usize = 4;

/// Up to about six days.
const BUCKETS: usize = 39 * PARTS + 1;

/// How long something took. This gives the mean and, for each percentage, a bound that is exact to
/// a fifth of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    count: u64,
    sum: Duration,
    longest: Duration,
    /// How often each time was added, if any time was more than zero. The first bucket is for zero.
    buckets: Option<Box<[u32; BUCKETS]>>,
}

impl Times {
    /// Adds a time, this many times.
    pub(crate) fn add(&mut self, time: Duration, count: u64) {
        self.count = self.count.saturating_add(count);
        let times = u32::try_from(count).unwrap_or(u32::MAX);
        self.sum = self.sum.saturating_add(time.saturating_mul(times));
        self.longest = self.longest.max(time);
        if !time.is_zero() || self.buckets.is_some() {
            let bucket = bucket(time);
            let zeros = u32::try_from(self.count - count).unwrap_or(u32::MAX);
            let buckets = self.buckets.get_or_insert_with(|| {
                let mut buckets = Box::new([0; BUCKETS]);
                buckets[0] = zeros;
                buckets
            });
            buckets[bucket] = buckets[bucket].saturating_add(times);
        }
    }

    /// How many times were added.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// `None` if no time was added.
    pub(crate) fn mean(&self) -> Option<Duration> {
        #[expect(clippy::cast_precision_loss, reason = "it is told to three digits")]
        let seconds = (self.count > 0).then(|| self.sum.as_secs_f64() / self.count as f64)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The time that this many of a hundred took at most. `None` if no time was added.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let Some(buckets) = &self.buckets else {
            return (self.count > 0).then_some(Duration::ZERO);
        };
        let total: u64 = buckets.iter().copied().map(u64::from).sum();
        let wanted = total.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = buckets.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        Some(bound(bucket.unwrap_or(BUCKETS - 1)).min(self.longest))
    }

    /// The longest time.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }
}

fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let Some(power) = micros.checked_ilog2() else { return 0 };
    let part = if power < 2 { 0 } else { micros >> (power - 2) & 3 };
    let part = usize::try_from(part).unwrap_or(0);
    (1 + power as usize * PARTS + part).min(BUCKETS - 1)
}

/// The upper bound of the times in this bucket.
fn bound(bucket: usize) -> Duration {
    let Some(at) = bucket.checked_sub(1) else { return Duration::ZERO };
    let (power, part) = (at / PARTS, at % PARTS);
    let micros = if power < 2 { 2 << power } else { (5 + part as u64) << (power - 2) };
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the numbers are whole")]
    fn a_rate_is_that_of_the_last_ten_seconds() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(5), 0.0);
        rate.add(5, 10);
        assert_eq!(rate.per_second(5), 10.0);
        rate.add(6, 30);
        assert_eq!(rate.per_second(6), 20.0);
        assert_eq!(rate.per_second(14), 4.0);
        assert_eq!(rate.per_second(15), 3.0);
        assert_eq!(rate.per_second(16), 0.0);
        rate.add(1000, 10);
        assert_eq!(rate.per_second(1000), 1.0);
        rate.add(u64::MAX, u64::MAX);
        assert!(rate.per_second(u64::MAX) > 0.0);
    }

    #[test]
    fn no_time_is_above_the_bound_of_its_bucket_nor_far_below() {
        for power in 0..39 {
            for micros in [1_u64 << power, (1 << power) + (1 << power) / 3, (2 << power) - 1] {
                let time = Duration::from_micros(micros);
                let bound = bound(bucket(time));
                assert!(time <= bound, "{time:?} {bound:?}");
                assert!(micros < 8 || bound <= time * 13 / 10, "{time:?} {bound:?}");
            }
        }
        assert_eq!(bound(bucket(Duration::ZERO)), Duration::ZERO);
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_mean_and_a_percentile_are_told_of_what_was_counted() {
        let mut times = Times::default();
        assert_eq!((times.mean(), times.percentile(99)), (None, None));
        times.add(Duration::ZERO, 98);
        assert_eq!(times.percentile(99), Some(Duration::ZERO));
        times.add(Duration::from_millis(100), 2);
        assert_eq!(times.percentile(50), Some(Duration::ZERO));
        assert_eq!(times.percentile(99), Some(Duration::from_millis(100)));
        assert_eq!(times.mean(), Some(Duration::from_millis(2)));
        assert_eq!((times.count(), times.longest()), (100, Duration::from_millis(100)));
        times.add(Duration::MAX, u64::MAX);
        assert!(times.mean().is_some() && times.percentile(99).is_some());
    }
}
