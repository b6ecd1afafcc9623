//! One name: its holders, its waiters, and past events.

use navlock::{
    host::process,
    look::{Entry, LockName, Queue},
};

use super::{
    Body,
    line::{BOLD, Column, DIM, HELD, Line, PLAIN, WAITS, fit, row, titles},
    name_table::{mode, rate, remedies, trouble},
};
use crate::{
    commands::top::{data::Past, model::Model},
    remedy,
    text::{clipped, printable, short_name},
    time::{elapsed, taken},
};

/// What the cells of a column tell.
#[derive(Clone, Copy)]
enum Cell {
    State,
    Mode,
    Who,
    /// For how long the lock is held or waited for. For a past event, how long that took.
    For,
    /// How long ago a past event was.
    Ago,
    Why,
}

const COLUMNS: [Column<Cell>; 6] = [
    Column { tells: Cell::State, title: "STATE", rank: 0, least: 8, most: 11, is_number: false },
    Column { tells: Cell::Mode, title: "MODE", rank: 5, least: 4, most: 9, is_number: false },
    Column { tells: Cell::Who, title: "WHO", rank: 1, least: 12, most: 48, is_number: false },
    Column { tells: Cell::For, title: "FOR", rank: 2, least: 7, most: 7, is_number: true },
    Column { tells: Cell::Ago, title: "AGO", rank: 3, least: 6, most: 6, is_number: true },
    Column { tells: Cell::Why, title: "WHY", rank: 4, least: 10, most: 60, is_number: false },
];

/// The contents of a line.
enum Item<'a> {
    Held(&'a Entry),
    /// A request with its position; 1 is the next.
    Pending(usize, &'a Entry),
    Owned(&'a Entry),
    /// A past event; the last event comes first.
    Past(&'a Past),
    None,
}

pub(super) fn body<'a>(model: &'a Model, name: &'a LockName) -> Body<'a> {
    let data = model.data();
    let queue = data.overview.queues.get(name);
    let known = data.known.get(name);
    let of = |entries: Option<&'a Vec<Entry>>| entries.map_or(&[][..], Vec::as_slice);
    let held = of(queue.map(|queue: &Queue| &queue.held));
    let pending = of(queue.map(|queue| &queue.pending));
    let owned = of(queue.map(|queue| &queue.owned));
    let past = known.map_or(0, |known| known.past.len());
    let item = move |index: usize| -> Item<'a> {
        let mut index = index;
        if let Some(entry) = held.get(index) {
            return Item::Held(entry);
        }
        index -= held.len();
        if let Some(entry) = pending.get(index) {
            return Item::Pending(index + 1, entry);
        }
        index -= pending.len();
        if let Some(entry) = owned.get(index) {
            return Item::Owned(entry);
        }
        index -= owned.len();
        let past = known.and_then(|known| known.past.iter().rev().nth(index));
        past.map_or(Item::None, Item::Past)
    };
    let widths = fit(&COLUMNS, |_| true, model.size.0.into());
    let count = held.len() + pending.len() + owned.len() + past;
    let waits = known.map(|known| {
        let waits = &known.waits;
        let times = [("mean", waits.mean()), ("99 %", waits.percentile(99))];
        let mut told: Vec<_> = times
            .into_iter()
            .filter_map(|(what, time)| Some(format!("{what} {}", taken(time?))))
            .collect();
        if waits.count() > 0 {
            told.push(format!("longest {}", taken(waits.longest())));
        }
        let rate = rate(known.grants.per_second(data.second()));
        let rate = if rate.is_empty() { rate } else { format!(", {rate}") };
        format!("{} grants{rate}; waits: {}", waits.count(), told.join(", "))
    });
    let bucket = clipped(&printable(&name.bucket), 24);
    let title = format!(
        "{} in bucket {bucket}; {}",
        short_name(&name.name, 48),
        waits.unwrap_or_else(|| "nothing is known of it".to_owned())
    );
    Body {
        title,
        head: titles(&COLUMNS, &widths),
        count,
        chosen: model.place().line.min(count.saturating_sub(1)),
        line: Box::new(move |index| line(model, &item(index), &widths)),
        subject: Box::new(|_| Some(name.clone())),
        details: Box::new(move |index| match item(index) {
            Item::Held(entry) => remedies(model, name, entry, true),
            Item::Pending(_, entry) => remedies(model, name, entry, false),
            Item::Owned(_) => {
                let said = "its last holder owns it, and takes it without asking until others ask";
                let elsewhere =
                    "the owner may be another machine: 'navlock query' asks it for the holder";
                vec![Line::new(said, DIM), Line::new(elsewhere, DIM)]
            }
            Item::Past(_) | Item::None => Vec::new(),
        }),
        empty: "nobody holds it and nobody waits; nothing has happened lately".to_owned(),
    }
}

fn line(model: &Model, item: &Item<'_>, widths: &[usize; 6]) -> Line {
    let data = model.data();
    let seen = model.see();
    let (state, style, entry) = match item {
        Item::Held(entry) => ("held".to_owned(), HELD, *entry),
        Item::Pending(position, entry) => (format!("waits {position}"), WAITS, *entry),
        Item::Owned(entry) => ("owned".to_owned(), DIM, *entry),
        Item::Past(past) => return past_line(model, past, widths),
        Item::None => return Line::default(),
    };
    let id = entry.id.client_id;
    row(&COLUMNS, widths, |cell, wide| {
        let text = match cell {
            Cell::State => return (state.clone(), style),
            Cell::Mode => mode(entry.mode, wide),
            Cell::Who => {
                return (seen.who(id) + trouble(&seen, id), BOLD);
            }
            Cell::For => elapsed(entry.age(data.now)),
            Cell::Ago => String::new(),
            Cell::Why => {
                let info = data.overview.info_of(entry);
                info.map(|info| remedy::purpose(&info)).unwrap_or_default()
            }
        };
        (text, PLAIN)
    })
}

fn past_line(model: &Model, past: &Past, widths: &[usize; 6]) -> Line {
    let ago = model.data().now.saturating_duration_since(past.at);
    row(&COLUMNS, widths, |cell, _| {
        let text = match cell {
            Cell::State => past.word.to_owned(),
            Cell::Mode => String::new(),
            Cell::Who => process(past.agent.as_deref(), past.id),
            Cell::For => past.took.map(taken).unwrap_or_default(),
            Cell::Ago => elapsed(ago),
            Cell::Why => past.agent.as_ref().map(|info| printable(&info.why)).unwrap_or_default(),
        };
        (text, DIM)
    })
}
