//! The numbers that a daemon reports on itself: counters of what has happened, and gauges of its
//! present state.

use std::{fmt::Write as _, time::Duration};

use serde::{Deserialize, Serialize};

/// The type of a number in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The present value of something.
    Gauge,
    /// How often something has happened so far.
    Counter,
}

/// A description of one number, for those who show all of them: its name, its type, and its meaning.
type Description = (&'static str, Kind, &'static str);

/// Makes the struct and the methods that go through all fields of the struct, so that each number is
/// listed in only one place.
macro_rules! numbers {
    ($($kind:ident $field:ident: $what:literal;)*) => {
        /// What a daemon has counted since it began, and values of its present state.
        ///
        /// When the owner of a name takes the lock without asking, this grant counts in
        /// [`taken`](Self::taken) and in no other number.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(into = "ByName", from = "ByName")]
        pub struct Numbers {
            $(#[doc = concat!($what, ".")] pub $field: u64,)*
            /// How long the requests that were granted have waited.
            pub waits: Waits,
        }

        impl Numbers {
            /// All numbers apart from the waits, each with its description.
            fn all(&self) -> impl Iterator<Item = (Description, u64)> {
                [$(((stringify!($field), Kind::$kind, $what), self.$field),)*].into_iter()
            }

            /// Sets the number of this name. A name that only another release knows is ignored.
            fn set(&mut self, name: &str, value: u64) {
                match name {
                    $(stringify!($field) => self.$field = value,)*
                    _ => {}
                }
            }
        }
    };
}

numbers! {
    Gauge uptime_seconds: "For how many seconds it has run";
    Gauge clients: "How many clients are connected";
    Gauge orphans: "How many commands hold locks whose client was killed";
    Gauge held: "How many locks are held";
    Gauge pending: "How many requests wait";
    Gauge owned: "How many names are their clients' to take without asking";
    Gauge lookers: "How many lookers are connected";
    Counter sessions: "How many clients have come";
    Counter sessions_ended_badly: "How many sessions have ended as they do not where nothing is wrong";
    Counter turned_away: "How many clients were turned away because there were too many";
    Counter requests: "How many locks were asked for";
    Counter grants: "How many locks were granted";
    Counter unavailable: "How many locks were not to be had at once, where only that was asked";
    Counter failures: "How many requests have failed";
    Counter aborts: "How many requests were given up while they waited";
    Counter releases: "How many locks were released, or ended with their agent";
    Counter losses: "How many locks were lost, the stolen ones among them";
    Counter thefts: "How many locks were stolen";
    Counter taken: "How often an owned name was taken without asking";
    Counter recalls: "How often an owner was recalled because another asked";
    Counter log_lines_missing: "How many lines of the log could not be written";
}

/// How long requests have waited before they were granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Bounds, each with the number of requests that have waited no longer than this bound, and longer than
    /// the bound before it.
    pub bounds: Vec<(Duration, u64)>,
    /// How many requests have waited longer than the last bound.
    pub longer: u64,
    /// The sum of all waits.
    pub sum: Duration,
}

impl Numbers {
    /// All numbers in the text format of Prometheus (version 0.0.4): gauges, counters, and the waits as a
    /// histogram in seconds. Their names begin with `navlock_broker_`. No label contains the name of a lock.
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        for ((field, kind, what), value) in self.all() {
            let (suffix, kind) = match kind {
                Kind::Gauge => ("", "gauge"),
                Kind::Counter => ("_total", "counter"),
            };
            let name = format!("navlock_broker_{field}{suffix}");
            // Writing to a string does not fail.
            let _ = writeln!(text, "# HELP {name} {what}.\n# TYPE {name} {kind}\n{name} {value}");
        }
        self.waits.write_to(&mut text);
        text
    }

    /// The numbers by the names that they have in JSON.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> {
        self.all().map(|((field, ..), value)| (in_camel_case(field), value))
    }
}

/// The numbers as they are sent: by name, because releases have more or fewer of them; and the waits.
type ByName = (Vec<(String, u64)>, Waits);

impl From<ByName> for Numbers {
    fn from((numbers, waits): ByName) -> Self {
        let mut known = Self { waits, ..Self::default() };
        for (name, value) in numbers {
            known.set(&name, value);
        }
        known
    }
}

impl From<Numbers> for ByName {
    fn from(numbers: Numbers) -> Self {
        let named = numbers.all().map(|((field, ..), value)| (field.to_owned(), value)).collect();
        (named, numbers.waits)
    }
}

impl Waits {
    /// How many waits there were.
    pub fn count(&self) -> u64 {
        self.bounds.iter().fold(self.longer, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn write_to(&self, text: &mut String) {
        const NAME: &str = "navlock_broker_wait_time_seconds";
        let _ = writeln!(
            text,
            "# HELP {NAME} How long requests have waited until they were granted.\n\
             # TYPE {NAME} histogram"
        );
        let mut below = 0_u64;
        for (bound, count) in &self.bounds {
            below = below.saturating_add(*count);
            let bound = bound.as_secs_f64();
            let _ = writeln!(text, "{NAME}_bucket{{le=\"{bound}\"}} {below}");
        }
        let (count, sum) = (self.count(), self.sum.as_secs_f64());
        let _ = writeln!(text, "{NAME}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{NAME}_sum {sum}\n{NAME}_count {count}");
    }
}

/// The camel case of JavaScript for a name in the snake case of Rust.
fn in_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (start, rest) = word.split_at(1);
        name + &start.to_ascii_uppercase() + rest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Numbers {
        let waits = Waits {
            bounds: vec![(Duration::from_millis(1), 2), (Duration::from_secs(1), 1)],
            longer: 1,
            sum: Duration::from_millis(2500),
        };
        Numbers { held: 3, requests: 7, sessions_ended_badly: 1, waits, ..Numbers::default() }
    }

    #[test]
    fn prometheus_reads_them_as_gauges_counters_and_a_histogram() {
        let text = some().prometheus();
        for lines in [
            "# HELP navlock_broker_held How many locks are held.\n# TYPE navlock_broker_held gauge\n\
             navlock_broker_held 3\n",
            "# TYPE navlock_broker_requests_total counter\nnavlock_broker_requests_total 7\n",
            "# TYPE navlock_broker_wait_time_seconds histogram\n\
             navlock_broker_wait_time_seconds_bucket{le=\"0.001\"} 2\n\
             navlock_broker_wait_time_seconds_bucket{le=\"1\"} 3\n\
             navlock_broker_wait_time_seconds_bucket{le=\"+Inf\"} 4\n\
             navlock_broker_wait_time_seconds_sum 2.5\n\
             navlock_broker_wait_time_seconds_count 4\n",
        ] {
            assert!(text.contains(lines), "{lines} is not in {text}");
        }
    }

    #[test]
    fn they_are_heard_as_they_are_said_and_unknown_ones_are_passed_over() {
        let (mut numbers, waits) = ByName::from(some());
        numbers.push(("unheard_of".to_owned(), 9));
        assert_eq!(Numbers::from((numbers, waits)), some());
        assert!(some().named().any(|named| named == ("sessionsEndedBadly".to_owned(), 1)));
    }
}
