//! All names, in an order.

use std::{
    cmp::Ordering,
    rc::Rc,
    time::{Duration, Instant},
};

use navlock::{
    ClientId, Mode,
    look::{Entry, LockName, Queue},
};
use ratatui_core::style::Style;

use super::{
    Body,
    line::{BOLD, Column, DIM, HELD, Line, PLAIN, WAITS, fit, row, titles},
};
use crate::{
    commands::top::{data::Data, model::Model, order::Order},
    past::{NamePast, Times},
    remedy::Surroundings,
    text::{printable, short_name},
    time::{elapsed, taken},
};

/// What the cells of a column tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Name,
    Bucket,
    /// The mode of the first holder.
    Mode,
    Holder,
    /// For how long the name has been held.
    Held,
    /// How many requests wait.
    Queue,
    /// The longest wait so far.
    Wait,
    /// Grants a second.
    Rate,
    /// The mean of the waits that have ended.
    Mean,
    /// The time that 99 of 100 waits took at most.
    P99,
}

const COLUMNS: [Column<Cell>; 10] = [
    Column { tells: Cell::Name, title: "NAME", rank: 0, least: 10, most: 60, is_number: false },
    Column { tells: Cell::Bucket, title: "BUCKET", rank: 5, least: 8, most: 16, is_number: false },
    Column { tells: Cell::Mode, title: "MODE", rank: 9, least: 4, most: 9, is_number: false },
    Column { tells: Cell::Holder, title: "HOLDER", rank: 4, least: 12, most: 40, is_number: false },
    Column { tells: Cell::Held, title: "HELD", rank: 3, least: 6, most: 6, is_number: true },
    Column { tells: Cell::Queue, title: "QUEUE", rank: 2, least: 5, most: 5, is_number: true },
    Column { tells: Cell::Wait, title: "WAIT", rank: 1, least: 6, most: 6, is_number: true },
    Column { tells: Cell::Rate, title: "RATE", rank: 6, least: 6, most: 6, is_number: true },
    Column { tells: Cell::Mean, title: "MEAN", rank: 8, least: 7, most: 7, is_number: true },
    Column { tells: Cell::P99, title: "P99", rank: 7, least: 7, most: 7, is_number: true },
];

/// A name, with what is known of it.
struct Row<'a> {
    name: &'a LockName,
    queue: Option<&'a Queue>,
    past: Option<&'a NamePast>,
    key: (u64, u64),
}

pub(super) fn body(model: &Model) -> Body<'_> {
    let data = model.data();
    let now = data.now;
    let rows = Rc::new(rows(model));
    let with_bucket = model.bucket.is_none()
        && rows
            .first()
            .is_some_and(|first| rows.iter().any(|row| row.name.bucket != first.name.bucket));
    let is_wanted = |cell| cell != Cell::Bucket || with_bucket;
    let widths = fit(&COLUMNS, is_wanted, model.size.0.into());
    let is_chosen = |row: &Row<'_>| model.chosen.as_ref() == Some(row.name);
    let chosen = rows.iter().position(is_chosen);
    let chosen = chosen.unwrap_or(if model.chosen.is_some() { model.place().line } else { 0 });
    let (of_lines, of_subjects, of_details) =
        (Rc::clone(&rows), Rc::clone(&rows), Rc::clone(&rows));
    let held = rows.iter().filter(|row| row.queue.is_some_and(|queue| !queue.held.is_empty()));
    let pending = rows.iter().filter_map(|row| row.queue).map(|queue| queue.pending.len());
    let title = format!(
        "names {}  held {}  waiting {}  by {}{}",
        rows.len(),
        held.count(),
        pending.sum::<usize>(),
        model.order.word(),
        if model.is_reversed { ", reversed" } else { "" }
    );
    Body {
        title,
        head: titles(&COLUMNS, &widths),
        count: rows.len(),
        chosen: chosen.min(rows.len().saturating_sub(1)),
        line: Box::new(move |index| {
            of_lines.get(index).map(|row| line(model, row, &widths, now)).unwrap_or_default()
        }),
        subject: Box::new(move |index| of_subjects.get(index).map(|row| row.name.clone())),
        details: Box::new(move |index| {
            let first =
                of_details.get(index).and_then(|row| Some((row.name, row.queue?.held.first()?)));
            first.map(|(name, entry)| remedies(model, name, entry, true)).unwrap_or_default()
        }),
        empty: if model.filter.is_empty() {
            "nothing is held and nobody waits".to_owned()
        } else {
            "no name is like that".to_owned()
        },
    }
}

/// What can be done about a holder or waiter.
pub(super) fn remedies(model: &Model, name: &LockName, entry: &Entry, is_held: bool) -> Vec<Line> {
    let seen = model.see();
    let who = seen.who(entry.id.client_id);
    let is = if seen.stopped(entry.id.client_id).is_empty() { "" } else { " is stopped" };
    let why = seen.why(entry);
    let silent = seen.silent(entry.id.client_id, model.data().now);
    let silent = silent.map_or_else(String::new, |silent| format!(", {silent}"));
    let mut lines = vec![Line::new(format!("{who}{why}{is}{silent}"), BOLD)];
    lines.extend(seen.remedies(name, entry, is_held).into_iter().map(|remedy| {
        Line::new(format!("  {}", remedy.line), PLAIN).add(format!("   {}", remedy.does), DIM)
    }));
    lines
}

/// The names that are shown, in their order.
fn rows(model: &Model) -> Vec<Row<'_>> {
    let data = model.data();
    let wanted = model.filter.to_lowercase();
    let is_wanted = |name: &LockName| {
        model.bucket.as_ref().is_none_or(|bucket| *bucket == *name.bucket)
            && (wanted.is_empty()
                || match name.name.as_str() {
                    Some(text) => text.to_lowercase().contains(&wanted),
                    None => name.name.to_string().to_lowercase().contains(&wanted),
                })
    };
    let named = data.names().filter(|name| is_wanted(name));
    let mut rows: Vec<_> = named
        .map(|name| {
            let (queue, past) = (data.overview().queues.get(name), data.past.names.get(name));
            let key = key(model.order, queue, past, data);
            Row { name, queue, past, key }
        })
        .collect();
    let compare = |one: &Row<'_>, two: &Row<'_>| -> Ordering {
        two.key.cmp(&one.key).then_with(|| one.name.cmp(two.name))
    };
    if model.is_reversed {
        rows.sort_unstable_by(|one, two| compare(two, one));
    } else {
        rows.sort_unstable_by(compare);
    }
    rows
}

/// The value that decides where a name stands. The name with the largest value comes first.
fn key(order: Order, queue: Option<&Queue>, past: Option<&NamePast>, data: &Data) -> (u64, u64) {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let held = || held_for(queue, data.now).map_or(0, micros);
    let waited = || longest_wait(queue, data.now).map_or(0, |wait| micros(wait).max(1));
    let waits = past.map(|past| &past.waits);
    let count = || waits.map_or(0, Times::count);
    match order {
        Order::Wait => (waited(), held()),
        Order::Held => (held(), waited()),
        Order::Queue => (queue.map_or(0, |queue| queue.pending.len() as u64), waited()),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is neither negative nor that large"
        )]
        Order::Rate => ((grants(past, data) * 1e3) as u64, held()),
        Order::Mean => (waits.and_then(Times::mean).map_or(0, micros), count()),
        Order::P99 => (p99(past).map_or(0, micros), count()),
        Order::Name => (0, 0),
    }
}

/// Grants a second.
pub(super) fn grants(past: Option<&NamePast>, data: &Data) -> f64 {
    past.map_or(0.0, |past| past.grants.per_second(data.second()))
}

/// The time that 99 of 100 waits took at most.
fn p99(past: Option<&NamePast>) -> Option<Duration> {
    past?.waits.percentile(99)
}

fn held_for(queue: Option<&Queue>, now: Instant) -> Option<Duration> {
    queue?.held.iter().map(|entry| entry.age(now)).max()
}

fn longest_wait(queue: Option<&Queue>, now: Instant) -> Option<Duration> {
    queue?.pending.iter().map(|entry| entry.age(now)).max()
}

fn line(model: &Model, of: &Row<'_>, widths: &[usize; 10], now: Instant) -> Line {
    let data = model.data();
    let waits = of.queue.is_some_and(|queue| !queue.pending.is_empty());
    let held = of.queue.and_then(|queue| queue.held.first());
    let style = match (waits, held) {
        (true, _) => WAITS,
        (false, Some(_)) => HELD,
        (false, None) => DIM,
    };
    row(&COLUMNS, widths, |cell, wide| -> (String, Style) {
        let text = match cell {
            Cell::Name => return (short_name(&of.name.name, wide), style),
            Cell::Bucket => printable(&of.name.bucket),
            Cell::Mode => held.map(|entry| mode(entry.mode, wide)).unwrap_or_default(),
            Cell::Holder => holder(model, of.queue),
            Cell::Held => held_for(of.queue, now).map(elapsed).unwrap_or_default(),
            Cell::Queue => match of.queue.map_or(0, |queue| queue.pending.len()) {
                0 => String::new(),
                count => count.to_string(),
            },
            Cell::Wait => {
                return (longest_wait(of.queue, now).map(elapsed).unwrap_or_default(), style);
            }
            Cell::Rate => rate(grants(of.past, data)),
            Cell::Mean => of.past.and_then(|it| it.waits.mean()).map(taken).unwrap_or_default(),
            Cell::P99 => p99(of.past).map(taken).unwrap_or_default(),
        };
        (text, if held.is_some() || waits { PLAIN } else { DIM })
    })
}

pub(super) fn mode(mode: Mode, room: usize) -> String {
    let whole = mode.as_str();
    if room >= whole.len() { whole.to_owned() } else { whole[..4].to_owned() }
}

/// The holders of a name, or in brackets the owner that does not hold it.
fn holder(model: &Model, queue: Option<&Queue>) -> String {
    let Some(queue) = queue else { return String::new() };
    let seen = model.see();
    let Some(first) = queue.held.first() else {
        let owner = queue.owned.first().map(|entry| format!("({})", seen.who(entry.id.client_id)));
        return owner.unwrap_or_default();
    };
    let id = first.id.client_id;
    let more = match queue.held.len() {
        1 => String::new(),
        count => format!(" +{}", count - 1),
    };
    format!("{}{more}{}", seen.who(id), trouble(&seen, id))
}

/// A word for what is wrong with a holder or waiter, after a space.
pub(super) fn trouble(seen: &Surroundings<'_>, id: ClientId) -> &'static str {
    match (seen.stopped(id).as_slice(), seen.silence(id)) {
        ([], None) => "",
        ([], Some(_)) => " silent",
        _ => " stopped",
    }
}

/// `0.3/s`, `12/s`, `12k/s`.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        none if none < 0.05 => String::new(),
        few if few < 9.95 => format!("{few:.1}/s"),
        some if some < 9_999.5 => format!("{some:.0}/s"),
        many => format!("{:.0}k/s", many / 1e3),
    }
}
