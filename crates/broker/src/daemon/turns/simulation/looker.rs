//! Somebody who looks at a broker: a picture that is made with pauses, and the events after it, must agree with a picture
//! that is made in one moment.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{FutureExt, future::LocalBoxFuture};
use navlock_core::{
    ClientId, FencingToken, Mode,
    look::{Entry, LockId, LockName, LookOptions, Overview},
};
use navlock_wire::LookEvent;

use super::plan::Random;
use crate::{
    convert,
    daemon::{lookers::Looker, picture::Picture, state::Daemon},
};

pub(super) struct Watcher {
    daemon: Arc<Daemon>,
    random: Random,
    looker: Arc<Looker>,
    /// What is being made.
    picture: Option<LocalBoxFuture<'static, Picture>>,
    /// What the looker sees, once it has seen a picture.
    sees: Option<View>,
}

/// What a looker sees.
#[derive(Default)]
struct View(Overview);

/// What is compared.
type Shape = (
    Vec<(LockName, [Vec<(LockId, Mode, Option<FencingToken>)>; 2])>,
    BTreeSet<u64>,
    BTreeSet<(ClientId, Option<u64>)>,
);

impl Watcher {
    pub(super) fn new(daemon: &Arc<Daemon>, random: Random) -> Self {
        let looker = Arc::new(daemon.lookers.add(LookOptions::default()));
        let mut watcher =
            Self { daemon: Arc::clone(daemon), random, looker, picture: None, sees: None };
        watcher.begin();
        watcher
    }

    /// Has a picture made.
    fn begin(&mut self) {
        let slice = 1 + self.random.below(5);
        self.picture = Some(picture(&self.daemon, &self.looker, slice));
    }

    /// Goes on between two turns.
    pub(super) fn go_on(&mut self) {
        loop {
            let (events, has_more) = self.looker.next();
            if let Some(view) = &mut self.sees {
                view.apply(events);
            }
            if !has_more {
                break;
            }
        }
        if self.looker.is_behind() || self.picture.is_none() && self.random.one_in(20) {
            self.begin();
        }
        if self.random.one_in(3) {
            return;
        }
        let polled = self.picture.as_mut().map(poll);
        if let Some(Poll::Ready(picture)) = polled {
            self.picture = None;
            self.sees = View::of(&self.looker, picture);
            if self.sees.is_none() {
                self.begin();
            }
        }
    }

    /// What is wrong, if what is seen is not what is so. To be called when the broker has told all that there is.
    pub(super) fn is_wrong(&mut self) -> Option<String> {
        if self.picture.is_some() {
            return None;
        }
        let seen = self.sees.as_ref()?.shape();
        let looker = Arc::new(self.daemon.lookers.add(LookOptions::default()));
        let Poll::Ready(picture) = poll(&mut picture(&self.daemon, &looker, usize::MAX)) else {
            return Some("a picture was not made in one moment".to_owned());
        };
        let is_so = View::of(&looker, picture)?.shape();
        (seen != is_so).then(|| format!("a looker sees {seen:?}, and there is {is_so:?}"))
    }
}

impl View {
    /// What this picture shows, with the events that are a part of it. `None` if the looker has missed some of these.
    fn of(looker: &Looker, picture: Picture) -> Option<Self> {
        let mut view = Self::default();
        let (_, events) = looker.go_on()?;
        view.apply(picture.in_order());
        view.apply(events);
        Some(view)
    }

    fn apply(&mut self, events: Vec<LookEvent>) {
        for event in convert::events(events) {
            self.0.apply(&event);
        }
    }

    fn shape(&self) -> Shape {
        let ids = |entries: &[Entry]| {
            let mut ids: Vec<_> =
                entries.iter().map(|entry| (entry.id, entry.mode, entry.token)).collect();
            ids.sort_by_key(|(id, ..)| (id.serial, id.client_id.to_bytes()));
            ids
        };
        let queues = self.0.queues.iter();
        let queues =
            queues.map(|(name, queue)| (name.clone(), [ids(&queue.held), ids(&queue.pending)]));
        let agents = self.0.agents.iter().map(|(id, agent)| (*id, agent.client));
        (queues.collect(), self.0.clients.keys().copied().collect(), agents.collect())
    }
}

fn picture(
    daemon: &Arc<Daemon>,
    looker: &Arc<Looker>,
    slice: usize,
) -> LocalBoxFuture<'static, Picture> {
    let (daemon, looker) = (Arc::clone(daemon), Arc::clone(looker));
    async move { daemon.picture(&looker, &Arc::default(), slice).await.0 }.boxed_local()
}

fn poll(picture: &mut LocalBoxFuture<'static, Picture>) -> Poll<Picture> {
    pin!(picture).poll(&mut Context::from_waker(Waker::noop()))
}
