//! Who waits for whom.

use navlock::look::{Root, Row, tree};

use super::{
    content::{self, Body},
    line::{BAD, DIM, HELD, Line, PLAIN, WAITS},
};
use crate::{
    commands::top::model::Model,
    text::{WIDEST_NAME, printable, short_name},
    time::elapsed,
    wait_tree::{branches, word},
};

pub(super) fn body(model: &Model) -> Body<'_> {
    let mut roots = tree(model.data().overview());
    if let Some(bucket) = &model.bucket {
        roots.retain(|root| root.rows.iter().any(|row| *row.name.bucket == **bucket));
    }
    let waiting: usize = roots.iter().map(|root| root.blocks).sum();
    let cycles = match roots.iter().filter(|root| root.is_cycle).count() {
        0 => String::new(),
        1 => "; 1 cycle".to_owned(),
        some => format!("; {some} cycles"),
    };
    Body {
        title: format!("who waits for whom: {} hold up {waiting}{cycles}", roots.len()),
        head: Line::new(
            "hard: held by the one above; soft: queued behind it; inside: made under it",
            DIM,
        ),
        rows: roots.into_iter().flat_map(|root| rows(model, root)).collect(),
        empty: "nobody waits",
    }
}

fn rows<'a>(model: &'a Model, root: Root<'a>) -> Vec<content::Row<'a>> {
    let Root { blocks, is_cycle, rows, .. } = root;
    let branches = branches(&rows);
    let row = |(row, branch): (Row<'a>, String)| content::Row {
        name: Some(row.name),
        entry: Some((row.entry, row.is_held)),
        ..content::Row::new(move || line(model, blocks, is_cycle, &row, &branch))
    };
    rows.into_iter().zip(branches).map(row).collect()
}

/// The line of a row in a tree that has this many waiters.
fn line(model: &Model, blocks: usize, is_cycle: bool, row: &Row<'_>, branch: &str) -> Line {
    let data = model.data();
    let seen = model.see();
    let id = row.entry.id.client_id;
    let mut line = Line::new(branch, DIM);
    if row.depth == 0 && is_cycle {
        line = line.add("cycle: ", BAD);
    }
    if let Some(why) = row.why {
        line = line.add(format!("{} ", word(why)), DIM);
    }
    let verb = if row.is_held { "holds" } else { "waits for" };
    let bucket = if model.bucket.is_some() || &*row.name.bucket == "default" {
        String::new()
    } else {
        format!("{}/", printable(&row.name.bucket))
    };
    let name = short_name(&row.name.name, WIDEST_NAME);
    let is = if seen.stopped(id).is_empty() { "" } else { ", stopped" };
    let silent = seen.silent(id, data.now).map_or_else(String::new, |silent| format!(", {silent}"));
    let style = if row.is_held { HELD } else { WAITS };
    line = line.add(seen.who(id), style).add(
        format!(
            " {verb} {bucket}{name} ({}) {}{is}{silent}{}",
            row.entry.mode,
            elapsed(row.entry.age(data.now)),
            seen.why(row.entry)
        ),
        PLAIN,
    );
    if row.depth == 0 && !is_cycle {
        line = line.add(format!("; {blocks} wait"), WAITS);
    }
    line
}
