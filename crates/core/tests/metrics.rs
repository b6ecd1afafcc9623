//! The metrics of locks, as this test's own recorder gets them in its own thread.

#![expect(clippy::float_cmp, reason = "what is compared are small whole numbers")]
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{
    collections::BTreeMap,
    future::{Future, IntoFuture},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use navlock_core::{ClientId, Error, UserAgent, blocking::block_on, describe_metrics, host};

/// The recorded values. Counters and gauges are compared by their sums, histograms by their values.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

/// One metric.
struct One(Recorded, String);

impl Recorded {
    fn push(&self, name: &str, value: f64) {
        self.0.lock().unwrap().entry(name.to_owned()).or_default().push(value);
    }

    fn sum(&self, name: &str) -> f64 {
        self.0.lock().unwrap().get(name).map_or(0.0, |values| values.iter().sum())
    }

    fn count(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, Vec::len)
    }

    fn one(&self, key: &Key) -> Arc<One> {
        assert_eq!(key.labels().count(), 0, "{key} has a label");
        Arc::new(One(self.clone(), key.name().to_owned()))
    }
}

impl CounterFn for One {
    #[expect(clippy::cast_precision_loss, reason = "they are small")]
    fn increment(&self, value: u64) {
        self.0.push(&self.1, value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("nothing here is set");
    }
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.0.push(&self.1, value);
    }

    fn decrement(&self, value: f64) {
        self.0.push(&self.1, -value);
    }

    fn set(&self, _: f64) {
        unreachable!("nothing here is set");
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        self.0.push(&self.1, value);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.push(&format!("described {}", key.as_str()), 1.0);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe_counter(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        assert_eq!(unit, Some(Unit::Seconds));
        self.describe_counter(key, unit, text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

/// Returns the metrics that are recorded while `run` runs.
fn recorded(run: impl FnOnce(&Recorded)) -> Recorded {
    let recorded = Recorded::default();
    metrics::with_local_recorder(&recorded, || run(&recorded));
    recorded
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn each_wait_and_each_hold_is_measured_once() {
    let mut waited = Duration::ZERO;
    let recorded = recorded(|now| {
        let locks = UserAgent::new().lock_manager("app");
        let guard = locks.lock("db").blocking().unwrap();
        assert_eq!((now.sum("navlock.lock.held"), now.count("navlock.lock.wait_time")), (1.0, 1));
        let mut next = pin!(locks.lock("db").into_future());
        let mut owned = pin!(locks.lock("db").into_owned());
        assert!(!poll(next.as_mut()) && !poll(owned.as_mut()));
        assert_eq!(now.sum("navlock.lock.pending_requests"), 2.0);
        let asked = Instant::now();
        while waited.is_zero() {
            waited = asked.elapsed();
        }
        drop(guard);
        let next = block_on(next).unwrap();
        assert_eq!(now.sum("navlock.lock.pending_requests"), 1.0);
        drop(next);
        drop(block_on(owned).unwrap());
        assert_eq!(block_on(locks.request("db", async |_| now.sum("navlock.lock.held"))), Ok(1.0));
    });
    assert_eq!(recorded.count("navlock.lock.wait_time"), 4);
    assert_eq!(recorded.count("navlock.lock.use_time"), 4);
    // Two requests waited for this time, while the first lock was held.
    assert!(recorded.sum("navlock.lock.wait_time") >= 2.0 * waited.as_secs_f64());
    assert!(recorded.sum("navlock.lock.use_time") >= waited.as_secs_f64());
    for gauge in ["navlock.lock.held", "navlock.lock.pending_requests"] {
        assert_eq!(recorded.sum(gauge), 0.0, "{gauge}");
    }
    for none in ["timeouts", "aborts", "stolen", "lost", "unavailable"] {
        assert_eq!(recorded.count(&format!("navlock.lock.{none}")), 0, "{none}");
    }
}

#[test]
fn failed_requests_are_counted_by_their_reason() {
    let recorded = recorded(|_| {
        let bucket = UserAgent::new().bucket("app");
        let (locks, others) = (bucket.lock_manager(), bucket.lock_manager());
        let guard = locks.lock("db").blocking().unwrap();
        let late = locks.lock("db").blocking_timeout(Duration::from_millis(1));
        assert!(matches!(late.unwrap_err(), Error::TimedOut(_)));
        let late = locks.lock_all(["db", "log"]).blocking_timeout(Duration::from_millis(1));
        assert!(late.is_err());
        {
            let mut aborted = pin!(locks.lock("db").into_future());
            assert!(!poll(aborted.as_mut()));
        }
        assert!(locks.lock("db").if_available().blocking().unwrap().is_none());
        let thief = others.lock("db").steal().blocking().unwrap();
        drop(guard);
        others.terminate();
        drop(thief);
        assert!(others.lock("db").blocking().is_err());
    });
    assert_eq!(recorded.sum("navlock.lock.timeouts"), 2.0);
    assert_eq!(recorded.sum("navlock.lock.aborts"), 1.0);
    assert_eq!(recorded.sum("navlock.lock.unavailable"), 1.0);
    assert_eq!(recorded.sum("navlock.lock.stolen"), 1.0);
    assert_eq!(recorded.sum("navlock.lock.lost"), 1.0);
    assert_eq!(recorded.sum("navlock.lock.held"), 0.0);
    assert_eq!(recorded.sum("navlock.lock.pending_requests"), 0.0);
    assert_eq!(recorded.count("navlock.lock.use_time"), 2);
}

#[test]
fn requests_of_a_host_for_other_agents_are_not_counted() {
    let recorded = recorded(|_| {
        let bucket = UserAgent::new().bucket("app");
        let locks = host::lock_manager_as(&bucket, ClientId::random());
        let guard = locks.lock("db").blocking().unwrap();
        assert!(!poll(pin!(locks.lock("db").into_future())));
        drop(guard);
    });
    assert!(recorded.0.lock().unwrap().is_empty());
}

#[test]
fn all_that_is_measured_is_described() {
    let recorded = recorded(|_| describe_metrics());
    let names = recorded.0.lock().unwrap();
    assert_eq!(names.len(), 9, "{:?}", names.keys());
    assert!(names.keys().all(|name| name.starts_with("described navlock.lock.")));
}
