//! Tests of what is shown and what keys do, without a terminal and without a broker.

mod keys;
mod limits;
mod views;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use navlock::{
    AgentInfo, ClientId, FencingToken, Mode,
    look::{Agent, Change, Client, ClientState, Entry, Event, LockId, LockName, Overview},
};
use navlock_platform::process::Seen;
use ratatui_core::{backend::TestBackend, terminal::Terminal};

use super::{
    keys::Key,
    model::{Model, Wish},
    view,
};
use crate::{remedy::Here, text::width};

/// An invented broker, and the model that shows it.
struct World {
    model: Model,
    now: Instant,
    overview: Overview,
    serial: u64,
}

fn nobody(_: u32) -> Option<Seen> {
    None
}

/// What the kernel would say of a process: only process 13 is stopped.
#[expect(clippy::unnecessary_wraps, reason = "of others it would be none")]
fn thirteen(pid: u32) -> Option<Seen> {
    Some(Seen { is_stopped: pid == 13, parent: 1 })
}

fn name(text: &str) -> LockName {
    LockName::new("default", text.try_into().unwrap())
}

/// The client id of a process.
fn client(pid: u32) -> ClientId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&pid.to_be_bytes());
    ClientId::from_bytes(bytes)
}

impl World {
    fn new() -> Self {
        Self::with(nobody)
    }

    fn with(process: fn(u32) -> Option<Seen>) -> Self {
        let now = Instant::now();
        let model = Model::new(Here::made_up(process), "/run/sock".to_owned(), now);
        let mut world = Self { model, now, overview: Overview::default(), serial: 0 };
        world.anew(Overview::default(), 0);
        world
    }

    fn anew(&mut self, overview: Overview, missed: u64) {
        self.model.live.anew(overview, missed, None);
        self.model.tick(self.now);
    }

    fn tell(&mut self, events: &[Event]) {
        self.model.live.happened(events);
        self.model.tick(self.now);
    }

    fn happens(&mut self, change: Change) {
        let event = Event { at: self.now, change };
        self.overview.apply(&event);
        self.tell(&[event]);
    }

    /// A process connects to the broker.
    fn comes(&mut self, pid: u32, command: &str) {
        let mut details = Client::new(pid, ClientState::Connected);
        details.since = self.now;
        self.happens(Change::ClientCame { client: pid.into(), details });
        let mut info = AgentInfo::default();
        info.pid = pid;
        command.clone_into(&mut info.command);
        let details = Agent::new("default".into(), Arc::new(info), Some(pid.into()));
        self.happens(Change::AgentCame { agent: client(pid), details });
    }

    fn entry(&mut self, pid: u32, mode: Mode) -> Entry {
        if !self.overview.agents.contains_key(&client(pid)) {
            self.comes(pid, "/usr/bin/make -j4");
        }
        self.serial += 1;
        let mut entry = Entry::new(LockId { client_id: client(pid), serial: self.serial }, mode);
        entry.since = self.now;
        entry
    }

    fn holds(&mut self, pid: u32, name: &LockName) -> Entry {
        let mut entry = self.entry(pid, Mode::Exclusive);
        entry.token = Some(FencingToken::new(self.serial));
        self.happens(Change::Granted { name: name.clone(), entry: entry.clone() });
        entry
    }

    fn waits(&mut self, pid: u32, name: &LockName) -> Entry {
        let entry = self.entry(pid, Mode::Exclusive);
        self.happens(Change::Requested { name: name.clone(), entry: entry.clone() });
        entry
    }

    /// The request is granted.
    fn is_granted(&mut self, name: &LockName, entry: &Entry) {
        let mut entry = entry.clone();
        entry.since = self.now;
        self.happens(Change::Granted { name: name.clone(), entry });
    }

    fn releases(&mut self, name: &LockName, entry: &Entry) {
        self.happens(Change::Released { name: name.clone(), id: entry.id });
    }

    fn passes(&mut self, time: Duration) {
        self.now += time;
        self.model.tick(self.now);
    }

    fn press(&mut self, keys: &str) -> Option<Wish> {
        keys.chars().map(|key| self.model.press(Key::Char(key))).last().flatten()
    }

    /// The rows of the screen.
    fn shows(&mut self, columns: u16, rows: u16) -> Vec<String> {
        self.model.size = (columns, rows);
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| view::draw(&self.model, frame.buffer_mut())).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| {
            let mut row = String::new();
            let mut skip = 0;
            for x in 0..columns {
                let symbol = buffer[(x, y)].symbol();
                if skip == 0 {
                    row.push_str(symbol);
                    skip = width(symbol).max(1);
                }
                skip -= 1;
            }
            row
        };
        (0..rows).map(row).collect()
    }

    fn screen(&mut self) -> String {
        self.shows(80, 24).join("\n")
    }

    /// The words of the rows of the table.
    fn table(&mut self) -> Vec<Vec<String>> {
        let rows = self.shows(160, 24);
        let rows = rows[3..].iter().take_while(|row| !row.trim().is_empty());
        rows.map(|row| row.split_whitespace().map(str::to_owned).collect()).collect()
    }

    fn names(&mut self) -> Vec<String> {
        self.table().into_iter().map(|mut row| row.remove(0)).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);
