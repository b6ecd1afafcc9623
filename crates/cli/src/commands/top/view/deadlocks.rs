//! The deadlocks.

use super::{
    content::{Body, Row},
    line::{BAD, DIM, Line, PLAIN, WAITS, wrapped},
};
use crate::commands::top::model::Model;

pub(super) fn body(model: &Model) -> Body<'_> {
    let data = model.data();
    let room = usize::from(model.size.0);
    let seen = model.see();
    let mut rows = Vec::new();
    for (at, deadlock) in data.deadlocks.iter().enumerate() {
        let mut lines: Vec<_> = (0..at.min(1)).map(|_| Line::default()).collect();
        let style = if deadlock.is_certain { BAD } else { WAITS };
        let told = wrapped(deadlock.headline(), room);
        lines.extend(told.into_iter().map(|line| Line::new(line, style)));
        for told in deadlock.lines(data.now) {
            let told = wrapped(&told, room.saturating_sub(2));
            lines.extend(told.into_iter().map(|line| Line::new(format!("  {line}"), PLAIN)));
        }
        for (at, remedy) in seen.remedies_of(deadlock).into_iter().enumerate() {
            let or = if at == 0 { "" } else { "or " };
            let line = Line::new(format!("  {or}{}", remedy.line), PLAIN);
            lines.push(line.add(format!("   {}", remedy.does), DIM));
        }
        let name = deadlock.members.first().map(|member| &member.name);
        let row = |line: Line| Row { name, ..Row::new(move || line.clone()) };
        rows.extend(lines.into_iter().map(row));
    }
    let certain = data.deadlocks.iter().filter(|deadlock| deadlock.is_certain).count();
    Body {
        title: format!("deadlocks {certain}  possible {}", data.deadlocks.len() - certain),
        head: Line::new("each has lasted for a second at least; nothing ends it by itself", DIM),
        rows,
        empty: "no deadlocks: nobody waits for each other",
    }
}
