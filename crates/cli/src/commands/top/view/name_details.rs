//! One name: its holders, its waiters, and its past holders.

use std::rc::Rc;

use navlock::{
    host::process,
    look::{Entry, LockName, Queue},
};

use super::{
    Body,
    line::{BOLD, Column, DIM, HELD, Line, PLAIN, WAITS, fit, row, titles},
    name_table::{grants, mode, rate, remedies, trouble},
};
use crate::{
    commands::top::model::Model,
    past::{End, NamePast, Span},
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
    /// For how long the lock is, or was, held or waited for.
    For,
    /// How long ago a lock has ended.
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
#[derive(Clone, Copy)]
enum Item<'a> {
    Held(&'a Entry),
    /// A request with its position; 1 is the next.
    Pending(usize, &'a Entry),
    Owned(&'a Entry),
    /// A lock that has ended.
    Past(&'a Span),
}

/// What there is of a name, and what there was. Of what there was, the last comes first.
fn items<'a>(queue: Option<&'a Queue>, past: Option<&'a NamePast>) -> Rc<[Item<'a>]> {
    let of_queue = queue.into_iter().flat_map(|Queue { held, pending, owned, .. }| {
        let pending = (1..).zip(pending).map(|(position, entry)| Item::Pending(position, entry));
        held.iter().map(Item::Held).chain(pending).chain(owned.iter().map(Item::Owned))
    });
    let past = past.into_iter().flat_map(|past| past.ended.iter().rev().map(Item::Past));
    of_queue.chain(past).collect()
}

pub(super) fn body<'a>(model: &'a Model, name: &'a LockName) -> Body<'a> {
    let data = model.data();
    let past = data.past.names.get(name);
    let items = items(data.overview().queues.get(name), past);
    let widths = fit(&COLUMNS, |_| true, model.size.0.into());
    let count = items.len();
    let waits = past.map(|past| {
        let waits = &past.waits;
        let times = [("mean", waits.mean()), ("99 %", waits.percentile(99))];
        let longest = ("longest", waits.mean().map(|_| waits.longest()));
        let told = times.into_iter().chain([longest]);
        let told = told.filter_map(|(what, time)| Some(format!("{what} {}", taken(time?))));
        let rate = rate(grants(Some(past), data));
        let rate = if rate.is_empty() { rate } else { format!(", {rate}") };
        let told = told.collect::<Vec<_>>().join(", ");
        format!("{} grants{rate}; waits: {told}", waits.count())
    });
    let bucket = clipped(&printable(&name.bucket), 24);
    let of_lines = Rc::clone(&items);
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
        line: Box::new(move |index| {
            of_lines.get(index).map(|item| line(model, *item, &widths)).unwrap_or_default()
        }),
        subject: Box::new(|_| Some(name.clone())),
        details: Box::new(move |index| match items.get(index) {
            Some(Item::Held(entry)) => remedies(model, name, entry, true),
            Some(Item::Pending(_, entry)) => remedies(model, name, entry, false),
            Some(Item::Owned(_)) => {
                let said = "its last holder owns it, and takes it without asking until others ask";
                let elsewhere =
                    "the owner may be another machine: 'navlock query' asks it for the holder";
                vec![Line::new(said, DIM), Line::new(elsewhere, DIM)]
            }
            Some(Item::Past(_)) | None => Vec::new(),
        }),
        empty: "nobody holds it and nobody waits, nor has anybody held it lately".to_owned(),
    }
}

fn line(model: &Model, item: Item<'_>, widths: &[usize; 6]) -> Line {
    let data = model.data();
    let seen = model.see();
    let (state, style, entry) = match item {
        Item::Held(entry) => ("held".to_owned(), HELD, entry),
        Item::Pending(position, entry) => (format!("waits {position}"), WAITS, entry),
        Item::Owned(entry) => ("owned".to_owned(), DIM, entry),
        Item::Past(span) => return past_line(model, span, widths),
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
                let info = data.overview().info_of(entry);
                info.map(|info| remedy::purpose(&info)).unwrap_or_default()
            }
        };
        (text, PLAIN)
    })
}

fn past_line(model: &Model, span: &Span, widths: &[usize; 6]) -> Line {
    let Span { entry, info, end, .. } = span;
    let Some(End { at, how, .. }) = end else { return Line::default() };
    let ago = model.data().now.saturating_duration_since(*at);
    row(&COLUMNS, widths, |cell, wide| {
        let text = match cell {
            Cell::State => (*how).to_owned(),
            Cell::Mode => mode(entry.mode, wide),
            Cell::Who => process(info.as_deref(), entry.id.client_id),
            Cell::For => taken(at.saturating_duration_since(entry.since)),
            Cell::Ago => elapsed(ago),
            Cell::Why => info.as_ref().map(|info| printable(&info.why)).unwrap_or_default(),
        };
        (text, DIM)
    })
}
