//! How keys change the model.

pub(super) use crossterm::event::KeyCode as Key;
use navlock::look::LockName;

use super::{
    model::{Dialog, Model, Place, View, Wish},
    view::body,
};
use crate::steal::{Holder, holders};

/// ^C, ^Z and ^L.
pub(super) const INTERRUPT: Key = Key::Char('\u{3}');
pub(super) const SUSPEND: Key = Key::Char('\u{1a}');
pub(super) const REDRAW: Key = Key::Char('\u{c}');

/// The longest filter.
const LONGEST: usize = 200;

impl Model {
    /// Does what this key asks for. Returns what the model cannot do itself.
    pub(super) fn press(&mut self, key: Key) -> Option<Wish> {
        match key {
            INTERRUPT => return Some(Wish::Interrupt),
            SUSPEND => return Some(Wish::Suspend),
            REDRAW => return Some(Wish::Redraw),
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
            Key::Esc => {
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
        // FAST: this check only saves a call. The broker itself checks who holds the name at the
        // moment of the theft.
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
            Key::Esc | Key::Backspace | Key::Char('h') => {
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
                self.order += 1;
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

    /// Chooses another line. `to` gets the chosen line and the number of lines.
    fn go(&mut self, to: impl Fn(usize, usize) -> usize) {
        let body = body(self);
        let count = body.rows.len();
        let line = to(body.chosen(self), count).min(count.saturating_sub(1));
        let name = body.rows.get(line).and_then(|row| row.name.cloned());
        drop(body);
        if self.is_table() {
            self.chosen = name;
        }
        self.places.last_mut().expect("the first is never left").line = line;
    }

    /// The name that the chosen line is about.
    fn subject(&self) -> Option<LockName> {
        if let View::Name(name) = &self.place().view {
            return Some(name.clone());
        }
        let body = body(self);
        body.rows.get(body.chosen(self))?.name.cloned()
    }

    fn turn_to(&mut self, view: View) {
        let is_there = self.place().view == view;
        self.places.truncate(1);
        if !is_there && view != View::Names {
            self.places.push(Place { view, line: 0 });
        }
    }

    fn next_bucket(&mut self) {
        let before = self.bucket.as_deref();
        let is_next = |next: &&str| before.is_none_or(|before| *next > before);
        let next = self.data().buckets().into_iter().find(is_next).map(str::to_owned);
        self.bucket = next;
        self.chosen = None;
    }

    /// The holders of a name, as far as they are known.
    fn holders(&self, name: &LockName) -> Vec<Holder> {
        self.live.overview().queues.get(name).map(holders).unwrap_or_default()
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
