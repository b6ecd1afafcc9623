//! The deadlocks.

use super::{
    Body,
    line::{BAD, DIM, Line, PLAIN, WAITS, wrapped},
};
use crate::commands::top::model::Model;

pub(super) fn body(model: &Model) -> Body<'_> {
    let data = model.data();
    let room = usize::from(model.size.0);
    let seen = model.see();
    let mut lines: Vec<Line> = Vec::new();
    let mut names = Vec::new();
    for deadlock in &data.deadlocks {
        let before = lines.len();
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
        lines.push(Line::default());
        let name = deadlock.members.first().map(|member| member.name.clone());
        names.extend(std::iter::repeat_n(name, lines.len() - before));
    }
    lines.pop();
    let certain = data.deadlocks.iter().filter(|deadlock| deadlock.is_certain).count();
    let count = lines.len();
    Body {
        title: format!("deadlocks {certain}  possible {}", data.deadlocks.len() - certain),
        head: Line::new("each has lasted for a second at least; nothing ends it by itself", DIM),
        count,
        chosen: model.place().line.min(count.saturating_sub(1)),
        line: Box::new(move |index| lines.get(index).cloned().unwrap_or_default()),
        subject: Box::new(move |index| names.get(index).cloned().flatten()),
        details: Box::new(|_| Vec::new()),
        empty: "no deadlocks: nobody waits for each other".to_owned(),
    }
}
