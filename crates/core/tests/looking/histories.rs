//! Random histories: every looker sees the true state, whenever its look began.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use navlock_core::{
    LockFuture, LockGuard, LockManager, UserAgent,
    blocking::block_on,
    host::MemoryReach,
    look::{LookOptions, Looker, News},
};

use super::{
    begin,
    fold::{Fold, said},
};

const BUCKETS: [&str; 2] = ["app", "other"];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// A looker, and the state that the test computes from its events.
struct Looks {
    looker: Looker,
    fold: Fold,
    missed: u64,
}

impl Looks {
    fn begin(user_agent: &UserAgent) -> Self {
        let looker = begin(user_agent, LookOptions::default());
        let fold = Fold::of_picture(looker.overview());
        Self { looker, fold, missed: 0 }
    }

    fn take_news(&mut self) {
        while let Some(news) = self.looker.next(Some(Duration::ZERO)).unwrap() {
            match news {
                News::Events(events) => {
                    for event in &events {
                        self.fold.apply(event);
                    }
                }
                News::Anew { missed } => {
                    self.missed += missed;
                    self.fold = Fold::of_picture(self.looker.overview());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

struct History {
    random: Random,
    user_agent: UserAgent,
    agents: Vec<(&'static str, LockManager)>,
    waiting: Vec<Pin<Box<LockFuture<'static>>>>,
    held: Vec<LockGuard>,
    lookers: Vec<Looks>,
}

impl History {
    fn new(seed: u64, shards: usize) -> Self {
        let user_agent = UserAgent::with_memory(MemoryReach::default().with_shards(shards));
        let random = Random(seed);
        let (agents, waiting, held) = (Vec::new(), Vec::new(), Vec::new());
        Self { random, user_agent, agents, waiting, held, lookers: Vec::new() }
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0 => {
                let bucket = BUCKETS[self.random.below(2)];
                self.agents.push((bucket, self.user_agent.lock_manager(bucket)));
            }
            1 if self.agents.len() > 3 => {
                let (_, locks) = self.agents.swap_remove(self.random.below(self.agents.len()));
                if self.random.below(2) == 0 {
                    locks.terminate();
                }
            }
            2 if self.lookers.len() < 3 => self.lookers.push(Looks::begin(&self.user_agent)),
            3 if self.random.below(8) == 0 && !self.lookers.is_empty() => {
                let at = self.random.below(self.lookers.len());
                drop(self.lookers.swap_remove(at));
            }
            4..10 if !self.agents.is_empty() => {
                let name = NAMES[self.random.below(3)];
                let (_, locks) = &self.agents[self.random.below(self.agents.len())];
                let mut request = locks.lock(name);
                match self.random.below(6) {
                    0 => request = request.steal(),
                    1..4 => request = request.shared(),
                    4 => {
                        self.held.extend(request.if_available().blocking().unwrap_or(None));
                        return;
                    }
                    _ => {}
                }
                let mut request = Box::pin(match self.held.as_slice() {
                    [first, ..] if self.random.below(4) == 0 => request.inside(first).into_owned(),
                    _ => request.into_owned(),
                });
                let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                match polled {
                    Poll::Ready(answer) => self.held.extend(answer.ok()),
                    Poll::Pending => self.waiting.push(request),
                }
            }
            10..13 if !self.held.is_empty() => {
                drop(self.held.swap_remove(self.random.below(self.held.len())));
            }
            13 if !self.waiting.is_empty() => {
                drop(self.waiting.swap_remove(self.random.below(self.waiting.len())));
            }
            _ => self.take_granted(),
        }
    }

    fn take_granted(&mut self) {
        for mut request in std::mem::take(&mut self.waiting) {
            match request.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => self.held.extend(answer.ok()),
                Poll::Pending => self.waiting.push(request),
            }
        }
    }

    /// Asserts that the state that each looker has computed is the true state.
    fn judge(&mut self) {
        for looks in &mut self.lookers {
            looks.take_news();
            assert_eq!(
                looks.fold,
                Fold::of_picture(looks.looker.overview()),
                "one adds as the other does"
            );
            assert_eq!(looks.missed, 0);
        }
        for bucket in BUCKETS {
            let asker = self.user_agent.lock_manager(bucket);
            let said = said(bucket, &block_on(asker.query().into_future()).unwrap());
            for looks in &self.lookers {
                assert_eq!(looks.fold.said(bucket), said);
            }
        }
        for looks in &mut self.lookers {
            looks.take_news();
        }
        // A new look shows the same as the older looks, including all times.
        if let Some(looks) = self.lookers.first() {
            let late = begin(&self.user_agent, LookOptions::default());
            assert_eq!(late.overview(), looks.looker.overview());
        }
    }
}

#[test]
fn in_random_histories_whoever_looks_sees_what_there_is() {
    for seed in 0..300 {
        let mut history = History::new(seed, [1, 4][usize::from(seed % 2 == 0)]);
        for step in 0..400 {
            history.step();
            if step % 16 == 0 {
                history.judge();
            }
        }
        history.waiting.clear();
        history.held.clear();
        history.agents.clear();
        history.judge();
        let mut last = begin(&history.user_agent, LookOptions::default());
        assert!(last.overview().queues.is_empty() && last.overview().agents.is_empty());
        assert_eq!(last.next(Some(Duration::ZERO)), Ok(None));
    }
}
