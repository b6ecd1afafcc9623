//! What is looked at, and what keys do to it.

use std::time::{Duration, Instant};

use navlock::{
    FencingToken,
    look::{LockId, LockName, Watcher},
};

use super::{
    data::{Data, Heard},
    view::{self, names::Order},
};
use crate::remedy::{Here, Surroundings};

/// How long a circle has to last to be called a deadlock.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest filter.
const LONGEST: usize = 200;

/// A lock that is held, and its token: of a name that is owned, each hold is the same lock.
pub(super) type Holder = (LockId, FencingToken);

/// A key, as far as any of them means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    /// ^C.
    Interrupt,
    /// ^Z.
    Suspend,
    /// ^L.
    Redraw,
}

/// What is to be done that is none of the model's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    Interrupt,
    Suspend,
    Redraw,
    /// Take this lock from these, if nobody else holds it.
    Steal(LockName, Vec<Holder>),
}

/// What there is to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    Names,
    Name(LockName),
    Tree,
    Clients,
    Deadlocks,
}

/// A view, and the line of it that is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) view: View,
    pub(super) line: usize,
}

/// Where keys go to if not to the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialog {
    Help,
    /// A filter is being written, which was this one before.
    Filter(String),
    /// Whether to take this from those who hold it.
    Steal(LockName, Vec<Holder>),
}

pub(super) struct Model {
    live: Data,
    /// What is shown while it is paused.
    frozen: Option<Box<Data>>,
    watcher: Watcher,
    /// When deadlocks are looked for next.
    search: Instant,
    pub(super) here: Here,
    /// Where the broker is, for people.
    pub(super) socket: String,
    /// The way to what is looked at, which is the last.
    places: Vec<Place>,
    /// The name that is chosen, wherever it stands by now.
    pub(super) chosen: Option<LockName>,
    /// The only bucket that is shown.
    pub(super) bucket: Option<String>,
    pub(super) filter: String,
    pub(super) order: Order,
    pub(super) is_reversed: bool,
    pub(super) dialog: Option<Dialog>,
    /// What there is to be said about the last key.
    pub(super) message: Option<String>,
    pub(super) allow_steal: bool,
    pub(super) colours: bool,
    /// How many columns and rows there are.
    pub(super) size: (u16, u16),
}

impl Model {
    pub(super) fn new(here: Here, socket: String, now: Instant) -> Self {
        Self {
            live: Data::new(now),
            frozen: None,
            watcher: Watcher::new(PATIENCE),
            search: now,
            here,
            socket,
            places: vec![Place { view: View::Names, line: 0 }],
            chosen: None,
            bucket: None,
            filter: String::new(),
            order: Order::Wait,
            is_reversed: false,
            dialog: None,
            message: None,
            allow_steal: false,
            colours: true,
            size: (80, 24),
        }
    }

    /// What is shown.
    pub(super) fn data(&self) -> &Data {
        self.frozen.as_deref().unwrap_or(&self.live)
    }

    /// Those who hold and wait, as they are shown.
    pub(super) fn see(&self) -> Surroundings<'_> {
        let data = self.data();
        self.here.see(&data.overview, data.namespace)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// What is looked at.
    pub(super) fn place(&self) -> &Place {
        self.places.last().expect("the first is never left")
    }

    /// Takes in what has been heard.
    pub(super) fn hear(&mut self, heard: Heard) {
        self.live.hear(heard);
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        self.live.tick(now);
        if now >= self.search {
            let began = Instant::now();
            self.watcher.look(&self.live.overview, now);
            self.live.deadlocks = self.watcher.confirmed().cloned().collect();
            // Of very many who wait, it takes its time.
            self.search = now + PATIENCE.max(10 * began.elapsed());
        }
    }

    /// Something has come of a wish.
    pub(super) fn tell(&mut self, message: String) {
        self.message = Some(message);
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: Key) -> Option<Wish> {
        match key {
            Key::Interrupt => return Some(Wish::Interrupt),
            Key::Suspend => return Some(Wish::Suspend),
            Key::Redraw => return Some(Wish::Redraw),
            _ => {}
        }
        self.message = None;
        match self.dialog.take() {
            None => self.press_in_view(key),
            Some(Dialog::Help) => (key == Key::Char('q')).then_some(Wish::Quit),
            Some(Dialog::Filter(before)) => {
                self.dialog = self.write_filter(key, before);
                None
            }
            Some(Dialog::Steal(name, from)) => self.answer(key, name, from),
        }
    }

    fn write_filter(&mut self, key: Key, before: String) -> Option<Dialog> {
        match key {
            Key::Enter => return None,
            Key::Escape => {
                self.filter = before;
                return None;
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(char) if self.filter.len() < LONGEST => self.filter.push(char),
            _ => {}
        }
        Some(Dialog::Filter(before))
    }

    fn answer(&mut self, key: Key, name: LockName, from: Vec<Holder>) -> Option<Wish> {
        if key != Key::Char('y') {
            self.message = Some("nothing was stolen".to_owned());
            return None;
        }
        // FAST: who holds it in that moment is looked at by the broker.
        if self.holders(&name) == from {
            return Some(Wish::Steal(name, from));
        }
        self.message = Some(
            "nothing was stolen: somebody else holds it by now; see who, and ask again".to_owned(),
        );
        None
    }

    fn press_in_view(&mut self, key: Key) -> Option<Wish> {
        let page = usize::from(self.size.1).saturating_sub(8).max(1);
        match key {
            Key::Char('q') => return Some(Wish::Quit),
            Key::Char('?') => self.dialog = Some(Dialog::Help),
            Key::Up | Key::Char('k') => self.go(|line, _| line.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.go(|line, _| line.saturating_add(1)),
            Key::PageUp => self.go(|line, _| line.saturating_sub(page)),
            Key::PageDown => self.go(|line, _| line.saturating_add(page)),
            Key::Home | Key::Char('g') => self.go(|_, _| 0),
            Key::End | Key::Char('G') => self.go(|_, count| count),
            Key::Enter | Key::Char('l') => {
                if let Some(name) = self.subject() {
                    if self.place().view != View::Name(name.clone()) {
                        self.places.push(Place { view: View::Name(name), line: 0 });
                    }
                }
            }
            Key::Escape | Key::Backspace | Key::Char('h') => {
                if self.places.len() > 1 {
                    self.places.pop();
                } else {
                    self.filter.clear();
                }
            }
            Key::Char('t') => self.turn_to(View::Tree),
            Key::Char('c') => self.turn_to(View::Clients),
            Key::Char('d') => self.turn_to(View::Deadlocks),
            Key::Char('n') => self.turn_to(View::Names),
            Key::Char('s') => {
                self.order = self.order.next();
                self.is_reversed = false;
            }
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('/') => {
                self.turn_to(View::Names);
                let before = std::mem::take(&mut self.filter);
                self.dialog = Some(Dialog::Filter(before));
            }
            Key::Char('b') => self.next_bucket(),
            Key::Char('p' | ' ') => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(Box::new(self.live.clone())),
                };
            }
            Key::Char('S') => self.ask_to_steal(),
            _ => {}
        }
        None
    }

    /// Chooses another line: from the one that is chosen, and how many there are.
    fn go(&mut self, to: impl Fn(usize, usize) -> usize) {
        let body = view::body(self);
        let line = to(body.chosen, body.count).min(body.count.saturating_sub(1));
        let chosen = (self.place().view == View::Names).then(|| (body.subject)(line));
        drop(body);
        if let Some(chosen) = chosen {
            self.chosen = chosen;
        }
        self.places.last_mut().expect("the first is never left").line = line;
    }

    /// The name that the chosen line is about.
    fn subject(&self) -> Option<LockName> {
        let body = view::body(self);
        (body.subject)(body.chosen)
    }

    fn turn_to(&mut self, view: View) {
        let is_there = self.place().view == view;
        self.places.truncate(1);
        if !is_there && view != View::Names {
            self.places.push(Place { view, line: 0 });
        }
    }

    fn next_bucket(&mut self) {
        let buckets = view::names::buckets(self.data());
        self.bucket = match &self.bucket {
            None => buckets.into_iter().next(),
            Some(bucket) => buckets.into_iter().find(|next| next > bucket),
        };
        self.chosen = None;
    }

    /// Who holds a name, as far as is known.
    fn holders(&self, name: &LockName) -> Vec<Holder> {
        let queue = self.live.overview.queues.get(name);
        let held = queue.iter().flat_map(|queue| &queue.held);
        held.filter_map(|entry| Some((entry.id, entry.token?))).collect()
    }

    fn ask_to_steal(&mut self) {
        let Some(name) = self.subject() else {
            self.message = Some("choose a name, whose lock is to be stolen".to_owned());
            return;
        };
        if !self.allow_steal {
            self.message = Some("to steal, start it as 'navlock top --allow-steal'".to_owned());
            return;
        }
        let held = self.holders(&name);
        if held.is_empty() {
            self.message = Some("nobody holds it: there is nothing to steal".to_owned());
        } else {
            self.dialog = Some(Dialog::Steal(name, held));
        }
    }
}
