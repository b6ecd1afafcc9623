//! Who waits for whom.

use std::rc::Rc;

use navlock::look::{LockName, Root, Row, tree};

use super::{
    Body,
    line::{BAD, DIM, HELD, Line, PLAIN, WAITS},
    name_table::remedies,
};
use crate::{
    commands::top::model::Model,
    text::{WIDEST_NAME, printable, short_name},
    time::elapsed,
    wait_tree::{branches, word},
};

pub(super) fn body(model: &Model) -> Body<'_> {
    let data = model.data();
    let mut roots = tree(data.overview());
    if let Some(bucket) = &model.bucket {
        roots.retain(|root| root.rows.iter().any(|row| *row.name.bucket == **bucket));
    }
    // The root of each line, and the line's row in that tree.
    let lines: Vec<(usize, usize)> = (0..)
        .zip(&roots)
        .flat_map(|(root, of)| (0..of.rows.len()).map(move |row| (root, row)))
        .collect();
    let count = lines.len();
    let branches: Vec<_> = roots.iter().map(|root| branches(&root.rows)).collect();
    let shown = Rc::new((roots, lines, branches));
    let (of_lines, of_subjects, of_details) =
        (Rc::clone(&shown), Rc::clone(&shown), Rc::clone(&shown));
    let waiting: usize = shown.0.iter().map(|root| root.blocks).sum();
    let cycles = shown.0.iter().filter(|root| root.is_cycle).count();
    let cycles = match cycles {
        0 => String::new(),
        1 => "; 1 cycle".to_owned(),
        some => format!("; {some} cycles"),
    };
    Body {
        title: format!("who waits for whom: {} hold up {waiting}{cycles}", shown.0.len()),
        head: Line::new(
            "hard: held by the one above; soft: queued behind it; inside: made under it",
            DIM,
        ),
        count,
        chosen: model.place().line.min(count.saturating_sub(1)),
        line: Box::new(move |index| {
            let (roots, lines, branches) = &*of_lines;
            let Some(&(root, row)) = lines.get(index) else { return Line::default() };
            line(model, &roots[root], &roots[root].rows[row], &branches[root][row])
        }),
        subject: Box::new(move |index| -> Option<LockName> {
            let (roots, lines, _) = &*of_subjects;
            let (root, row) = *lines.get(index)?;
            Some(roots[root].rows[row].name.clone())
        }),
        details: Box::new(move |index| {
            let (roots, lines, _) = &*of_details;
            let Some(&(root, row)) = lines.get(index) else { return Vec::new() };
            let Row { name, entry, is_held, .. } = roots[root].rows[row];
            remedies(model, name, entry, is_held)
        }),
        empty: "nobody waits".to_owned(),
    }
}

fn line(model: &Model, root: &Root<'_>, row: &Row<'_>, branch: &str) -> Line {
    let data = model.data();
    let seen = model.see();
    let id = row.entry.id.client_id;
    let mut line = Line::new(branch, DIM);
    if row.depth == 0 && root.is_cycle {
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
    if row.depth == 0 && !root.is_cycle {
        line = line.add(format!("; {} wait", root.blocks), WAITS);
    }
    line
}
