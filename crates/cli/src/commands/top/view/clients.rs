//! The clients of the broker.

use std::rc::Rc;

use super::{
    Body,
    line::{BAD, Column, DIM, Line, PLAIN, fit, row, titles},
};
use crate::{client_rows::client_rows, commands::top::model::Model};

/// The columns of `navlock clients`.
const COLUMNS: [Column; 9] = [
    Column { title: "PID", least: 7, most: 8, is_number: true },
    Column { title: "STATE", least: 9, most: 9, is_number: false },
    Column { title: "AGE", least: 6, most: 6, is_number: true },
    Column { title: "AGENTS", least: 6, most: 6, is_number: true },
    Column { title: "HELD", least: 5, most: 6, is_number: true },
    Column { title: "WAITING", least: 7, most: 7, is_number: true },
    Column { title: "USER@HOST", least: 10, most: 32, is_number: false },
    Column { title: "BUCKETS", least: 8, most: 32, is_number: false },
    Column { title: "COMMAND", least: 10, most: 80, is_number: false },
];

const RANKS: [usize; 9] = [0, 4, 5, 8, 1, 2, 6, 7, 3];

pub(super) fn body(model: &Model) -> Body<'_> {
    let data = model.data();
    let mut shown = client_rows(&data.overview);
    if let Some(bucket) = &model.bucket {
        shown.retain(|one| one.buckets().contains(bucket.as_str()));
    }
    let widths = fit(&COLUMNS, &RANKS, model.size.0.into());
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
            row(&COLUMNS, &widths, |column| {
                let style = match (column, is_usual) {
                    (1, false) => BAD,
                    (1, true) => DIM,
                    _ => PLAIN,
                };
                (cells[column].clone(), style)
            })
        }),
        subject: Box::new(|_| None),
        details: Box::new(|_| Vec::new()),
        empty: "nobody uses the broker".to_owned(),
    }
}
