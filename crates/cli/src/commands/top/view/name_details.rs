//! One name: its holders, its waiters, and its past holders.

use std::rc::Rc;

use navlock::{
    Mode,
    host::process,
    look::{Entry, LockName, Queue},
};
use ratatui_core::style::Style;

use super::{
    content::{Body, Row},
    line::{BOLD, DIM, HELD, PLAIN, Table, WAITS, number, text},
    name_table::{grants, mode, rate, trouble},
};
use crate::{
    commands::top::model::Model,
    picture::past::{End, Span},
    remedy,
    text::{clipped, printable, short_name},
    time::{elapsed, taken},
};

/// What is told of one that owns the name.
const OWNED: &[&str] = &[
    "its last holder owns it, and takes it without asking until others ask",
    "the owner may be another machine: 'navlock query' asks it for the holder",
];

/// The cells of a line.
struct Cells {
    state: (String, Style),
    mode: Mode,
    who: (String, Style),
    /// For how long the lock is, or was, held or waited for.
    time: String,
    /// How long ago a lock has ended.
    ago: String,
    why: String,
    /// The style of the other cells.
    style: Style,
}

pub(super) fn body<'a>(model: &'a Model, name: &'a LockName) -> Body<'a> {
    let data = model.data();
    let past = data.past.names.get(name);
    let columns = vec![
        text("STATE", 0, 8, 11, |cells: &Cells, _| cells.state.clone()),
        text("MODE", 5, 4, 9, |cells, wide| (mode(cells.mode, wide), cells.style)),
        text("WHO", 1, 12, 48, |cells, _| cells.who.clone()),
        number("FOR", 2, 7, 7, |cells, _| (cells.time.clone(), cells.style)),
        number("AGO", 3, 6, 6, |cells, _| (cells.ago.clone(), cells.style)),
        text("WHY", 4, 10, 60, |cells, _| (cells.why.clone(), cells.style)),
    ];
    let table = Rc::new(Table::new(columns, model.size.0));
    let head = table.titles();
    let row = |cells: Box<dyn Fn() -> Cells + 'a>| {
        let table = Rc::clone(&table);
        Row { name: Some(name), ..Row::new(move || table.row(&cells())) }
    };
    let present = |state: String, style, entry: &'a Entry| {
        row(Box::new(move || Cells::of(model, entry, state.clone(), style)))
    };
    let mut rows = Vec::new();
    if let Some(Queue { held, pending, owned, .. }) = data.overview().queues.get(name) {
        rows.extend(held.iter().map(|entry| Row {
            entry: Some((entry, true)),
            ..present("held".to_owned(), HELD, entry)
        }));
        rows.extend((1..).zip(pending).map(|(position, entry)| Row {
            entry: Some((entry, false)),
            ..present(format!("waits {position}"), WAITS, entry)
        }));
        let owned = owned.iter();
        rows.extend(
            owned.map(|entry| Row { note: OWNED, ..present("owned".to_owned(), DIM, entry) }),
        );
    }
    // Of what there was, the last comes first.
    let ended = past.into_iter().flat_map(|past| past.ended.iter().rev());
    let ended = ended.filter_map(|span| Some((span, span.end.as_ref()?)));
    rows.extend(ended.map(|(span, end)| row(Box::new(move || Cells::ended(model, span, end)))));
    let bucket = clipped(&printable(&name.bucket), 24);
    let waits = past.map_or_else(
        || "nothing is known of it".to_owned(),
        |past| {
            let waits = &past.waits;
            let longest = waits.mean().map(|_| waits.longest());
            let times =
                [("mean", waits.mean()), ("99 %", waits.percentile(99)), ("longest", longest)];
            let told = times
                .into_iter()
                .filter_map(|(what, time)| Some(format!("{what} {}", taken(time?))));
            let rate = rate(grants(Some(past), data));
            let rate = if rate.is_empty() { rate } else { format!(", {rate}") };
            let told = told.collect::<Vec<_>>().join(", ");
            format!("{} grants{rate}; waits: {told}", waits.count())
        },
    );
    Body {
        title: format!("{} in bucket {bucket}; {waits}", short_name(&name.name, 48)),
        head,
        rows,
        empty: "nobody holds it and nobody waits, nor has anybody held it lately",
    }
}

impl Cells {
    /// Of a lock or a request.
    fn of(model: &Model, entry: &Entry, state: String, style: Style) -> Self {
        let data = model.data();
        let seen = model.see();
        let id = entry.id.client_id;
        let info = data.overview().info_of(entry);
        Self {
            state: (state, style),
            mode: entry.mode,
            who: (seen.who(id) + trouble(&seen, id), BOLD),
            time: elapsed(entry.age(data.now)),
            ago: String::new(),
            why: info.map(|info| remedy::purpose(&info)).unwrap_or_default(),
            style: PLAIN,
        }
    }

    /// Of a lock that has ended.
    fn ended(model: &Model, Span { entry, info, .. }: &Span, end: &End) -> Self {
        Self {
            state: (end.how.to_owned(), DIM),
            mode: entry.mode,
            who: (process(info.as_deref(), entry.id.client_id), DIM),
            time: taken(end.at.saturating_duration_since(entry.since)),
            ago: elapsed(model.data().now.saturating_duration_since(end.at)),
            why: info.as_ref().map(|info| printable(&info.why)).unwrap_or_default(),
            style: DIM,
        }
    }
}
