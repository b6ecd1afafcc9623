//! All names, in an order.

use std::{rc::Rc, time::Duration};

use navlock::{
    ClientId, Mode,
    look::{Entry, LockName, Queue},
};
use ratatui_core::style::Style;

use super::{
    content::{Body, Row},
    line::{Column, DIM, HELD, PLAIN, Table, WAITS, number, text},
};
use crate::{
    commands::top::model::Model,
    picture::{Picture, past::NamePast},
    remedy::Surroundings,
    text::{printable, short_name},
    time::{elapsed, taken},
};

/// A name, with what is known of it.
struct Named<'a> {
    model: &'a Model,
    name: &'a LockName,
    queue: Option<&'a Queue>,
    past: Option<&'a NamePast>,
}

/// What names can be ordered by, and the values of a name for it.
type Order = (&'static str, fn(&Named<'_>) -> (f64, f64));

/// The orders of names. The largest values come first. Where they are the same, the names are as in a dictionary.
const ORDERS: [Order; 7] = [
    ("longest wait", |it| (seconds(it.waited()), seconds(it.held_for()))),
    ("held longest", |it| (seconds(it.held_for()), seconds(it.waited()))),
    ("longest queue", |it| (it.waiters().map_or(0.0, number_of), seconds(it.waited()))),
    ("grants a second", |it| (it.rate(), seconds(it.held_for()))),
    ("mean wait", |it| (seconds(it.mean()), it.rate())),
    ("99 % of waits", |it| (seconds(it.p99()), it.rate())),
    ("name", |_| (0.0, 0.0)),
];

fn columns<'a>() -> Vec<Column<Named<'a>>> {
    vec![
        text("NAME", 0, 10, 60, |it, wide| (short_name(&it.name.name, wide), it.style())),
        text("BUCKET", 5, 8, 16, |it, _| it.cell(printable(&it.name.bucket))),
        text("MODE", 9, 4, 9, |it, wide| it.cell(it.held().map(|entry| mode(entry.mode, wide)))),
        text("HOLDER", 4, 12, 40, |it, _| it.cell(it.holder())),
        number("HELD", 3, 6, 6, |it, _| it.cell(it.held_for().map(elapsed))),
        number("QUEUE", 2, 5, 5, |it, _| it.cell(it.waiters().map(|count| count.to_string()))),
        number("WAIT", 1, 6, 6, |it, _| (it.waited().map(elapsed).unwrap_or_default(), it.style())),
        number("RATE", 6, 6, 6, |it, _| it.cell(rate(it.rate()))),
        number("MEAN", 8, 7, 7, |it, _| it.cell(it.mean().map(taken))),
        number("P99", 7, 7, 7, |it, _| it.cell(it.p99().map(taken))),
    ]
}

pub(super) fn body(model: &Model) -> Body<'_> {
    let names = names(model);
    let mut columns = columns();
    let is_one_bucket = names.windows(2).all(|two| two[0].name.bucket == two[1].name.bucket);
    if model.bucket.is_some() || is_one_bucket {
        columns.retain(|column| column.title != "BUCKET");
    }
    let table = Rc::new(Table::new(columns, model.size.0));
    let held = names.iter().filter(|it| it.held().is_some()).count();
    let pending: usize = names.iter().filter_map(Named::waiters).sum();
    let title = format!(
        "names {}  held {held}  waiting {pending}  by {}{}",
        names.len(),
        ORDERS[model.order % ORDERS.len()].0,
        if model.is_reversed { ", reversed" } else { "" }
    );
    let titles = table.titles();
    let rows = names.into_iter().map(|it| {
        let table = Rc::clone(&table);
        let (name, entry) = (Some(it.name), it.held().map(|entry| (entry, true)));
        Row { name, entry, ..Row::new(move || table.row(&it)) }
    });
    let empty = match model.filter.as_str() {
        "" => "nothing is held and nobody waits",
        _ => "no name is like that",
    };
    Body { title, head: titles, rows: rows.collect(), empty }
}

/// The names that are shown, in their order.
fn names(model: &Model) -> Vec<Named<'_>> {
    let data = model.data();
    let wanted = model.filter.to_lowercase();
    let is_wanted = |name: &LockName| {
        model.bucket.as_ref().is_none_or(|bucket| *bucket == *name.bucket)
            && (wanted.is_empty() || name.name.to_string().to_lowercase().contains(&wanted))
    };
    let named = data.names().filter(|name| is_wanted(name)).map(|name| {
        let (queue, past) = (data.overview().queues.get(name), data.past.names.get(name));
        let it = Named { model, name, queue, past };
        (ORDERS[model.order % ORDERS.len()].1(&it), it)
    });
    let mut all: Vec<_> = named.collect();
    all.sort_unstable_by(|((a, b), one), ((c, d), two)| {
        let order = c.total_cmp(a).then(d.total_cmp(b)).then_with(|| one.name.cmp(two.name));
        if model.is_reversed { order.reverse() } else { order }
    });
    all.into_iter().map(|(_, it)| it).collect()
}

/// Grants a second.
pub(super) fn grants(past: Option<&NamePast>, data: &Picture) -> f64 {
    past.map_or(0.0, |past| past.grants.per_second(data.past.second(data.now)))
}

fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(-1.0, |time| time.as_secs_f64())
}

fn number_of(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

impl<'a> Named<'a> {
    /// For how long the name has been held.
    fn held_for(&self) -> Option<Duration> {
        self.queue?.held.iter().map(|entry| entry.age(self.model.data().now)).max()
    }

    /// The longest wait so far.
    fn waited(&self) -> Option<Duration> {
        self.queue?.pending.iter().map(|entry| entry.age(self.model.data().now)).max()
    }

    /// The mean of the waits that have ended.
    fn mean(&self) -> Option<Duration> {
        self.past?.waits.mean()
    }

    /// The time that 99 of 100 waits took at most.
    fn p99(&self) -> Option<Duration> {
        self.past?.waits.percentile(99)
    }

    /// Grants a second.
    fn rate(&self) -> f64 {
        grants(self.past, self.model.data())
    }

    /// The first holder.
    fn held(&self) -> Option<&'a Entry> {
        self.queue?.held.first()
    }

    /// How many wait, if any do.
    fn waiters(&self) -> Option<usize> {
        Some(self.queue?.pending.len()).filter(|count| *count > 0)
    }

    /// The style of what matters most.
    fn style(&self) -> Style {
        match (self.waiters(), self.held()) {
            (Some(_), _) => WAITS,
            (None, Some(_)) => HELD,
            (None, None) => DIM,
        }
    }

    /// Another cell with this text, if there is one.
    fn cell(&self, text: impl Into<Option<String>>) -> (String, Style) {
        let style = if self.style() == DIM { DIM } else { PLAIN };
        (text.into().unwrap_or_default(), style)
    }

    /// The holders, or in brackets the owner that does not hold the name.
    fn holder(&self) -> Option<String> {
        let seen = self.model.see();
        let Queue { held, owned, .. } = self.queue?;
        let Some(first) = held.first() else {
            return owned.first().map(|entry| format!("({})", seen.who(entry.id.client_id)));
        };
        let id = first.id.client_id;
        let more = match held.len() {
            1 => String::new(),
            count => format!(" +{}", count - 1),
        };
        Some(format!("{}{more}{}", seen.who(id), trouble(&seen, id)))
    }
}

pub(super) fn mode(mode: Mode, room: usize) -> String {
    let whole = mode.as_str();
    if room >= whole.len() { whole.to_owned() } else { whole[..4].to_owned() }
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
