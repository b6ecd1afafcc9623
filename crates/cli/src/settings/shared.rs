//! Settings that all kinds of stores have.

use std::time::Duration;

use navlock::host::seconds;

use super::file::StoreTable;

/// The shortest time to live. If it were shorter, no other broker could replace a killed one in
/// time to keep its locks.
const SHORTEST: Duration = Duration::from_secs(5);

/// The time to live if none is set.
const TIME_TO_LIVE: Duration = Duration::from_secs(10);

/// The smallest margin. In less time, a process on a busy machine does not end.
const LEAST_MARGIN: Duration = Duration::from_millis(500);

/// The longest time to live. If it were longer, nobody could have the locks of a machine that died
/// for more than a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long leases last, as far as it is set.
pub(super) struct Times {
    pub(super) time_to_live: Option<Duration>,
    pub(super) margin: Option<Duration>,
}

/// The times in these settings.
pub(super) fn times(store: &StoreTable) -> Result<Times, String> {
    let time_to_live = store.time_to_live.map(time_to_live).transpose()?;
    let margin = store.margin.map(|given| margin(given, time_to_live)).transpose()?;
    Ok(Times { time_to_live, margin })
}

/// The time between the loss of a lock and its grant to others. Work under the lock has to end
/// within this time, and the lease is renewed in the rest of its time to live.
fn margin(given: f64, time_to_live: Option<Duration>) -> Result<Duration, String> {
    let most = time_to_live.unwrap_or(TIME_TO_LIVE) / 2;
    match Duration::try_from_secs_f64(given) {
        Ok(margin) if (LEAST_MARGIN..=most).contains(&margin) => Ok(margin),
        _ => Err(format!(
            "margin = {given}: it needs {} at least, or there is no time to end what works under \
             a lost lock, and {} at most, which is half of the time-to-live",
            seconds(LEAST_MARGIN),
            seconds(most)
        )),
    }
}

fn time_to_live(seconds: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if (SHORTEST..=LONGEST).contains(&time) => Ok(time),
        _ => Err(format!(
            "time-to-live = {seconds}: a broker needs {} s at least, or there is no time to replace \
             it while it keeps its locks, and {} s at most",
            SHORTEST.as_secs(),
            LONGEST.as_secs()
        )),
    }
}
