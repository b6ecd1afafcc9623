//! The clients of the broker.

use std::rc::Rc;

use super::{
    Body,
    line::{BAD, Column, DIM, Line, PLAIN, fit, row, titles},
};
use crate::{client_rows::client_rows, commands::top::model::Model};

/// The place of the state in the row of a client.
const STATE: usize = 1;

/// Each column shows the cell at this place in the row of `navlock clients`.
const COLUMNS: [Column<usize>; 9] = [
    Column { tells: 0, title: "PID", rank: 0, least: 7, most: 8, is_number: true },
    Column { tells: STATE, title: "STATE", rank: 4, least: 9, most: 9, is_number: false },
    Column { tells: 2, title: "AGE", rank: 5, least: 6, most: 6, is_number: true },
    Column { tells: 3, title: "AGENTS", rank: 8, least: 6, most: 6, is_number: true },
    Column { tells: 4, title: "HELD", rank: 1, least: 5, most: 6, is_number: true },
    Column { tells: 5, title: "WAITING", rank: 2, least: 7, most: 7, is_number: true },
    Column { tells: 6, title: "USER@HOST", rank: 6, least: 10, most: 32, is_number: false },
    Column { tells: 7, title: "BUCKETS", rank: 7, least: 8, most: 32, is_number: false },
    Column { tells: 8, title: "COMMAND", rank: 3, least: 10, most: 80, is_number: false },
];

pub(super) fn body(model: &Model) -> Body<'_> {
    let data = model.data();
    let mut shown = client_rows(data.overview());
    if let Some(bucket) = &model.bucket {
        shown.retain(|one| one.buckets().contains(bucket.as_str()));
    }
    let widths = fit(&COLUMNS, |_| true, model.size.0.into());
    let shown = Rc::new(shown);
    let of_lines = Rc::clone(&shown);
    let count = shown.len();
    Body {
        title: format!("clients {count}"),
        head: titles(&COLUMNS, &widths),
        count,
        chosen: model.place().line.min(count.saturating_sub(1)),
        line: Box::new(move |index| {
            let Some(one) = of_lines.get(index) else { return Line::default() };
            let cells = one.row().cells;
            let is_usual = one.state() == "connected";
            row(&COLUMNS, &widths, |place, _| {
                let style = match (place, is_usual) {
                    (STATE, false) => BAD,
                    (STATE, true) => DIM,
                    _ => PLAIN,
                };
                (cells[place].clone(), style)
            })
        }),
        subject: Box::new(|_| None),
        details: Box::new(|_| Vec::new()),
        empty: "nobody uses the broker".to_owned(),
    }
}
