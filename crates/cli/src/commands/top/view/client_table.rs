//! The clients of the broker.

use ratatui_core::style::Style;

use super::{
    content::{Body, Row},
    line::{BAD, DIM, PLAIN, Table, number, text},
};
use crate::{
    client_rows::{ClientRow, client_rows, columns},
    commands::top::model::Model,
};

/// The place of the state in the row of a client.
const STATE: usize = 1;

pub(super) fn body(model: &Model) -> Body<'_> {
    // Each column shows the cell of `navlock clients` at this place.
    let shown_columns = vec![
        number("PID", 0, 7, 8, cell::<0>),
        text("STATE", 4, 9, 9, cell::<STATE>),
        number("AGE", 5, 6, 6, cell::<2>),
        number("AGENTS", 8, 6, 6, cell::<3>),
        number("HELD", 1, 5, 6, cell::<4>),
        number("WAITING", 2, 7, 7, cell::<5>),
        text("USER@HOST", 6, 10, 32, cell::<6>),
        text("BUCKETS", 7, 8, 32, cell::<7>),
        text("COMMAND", 3, 10, 80, cell::<8>),
    ];
    let table = Table::new(shown_columns, model.size.0);
    let bucket = model.bucket.as_deref();
    let mut shown = client_rows(model.data().overview());
    shown.retain(|one| bucket.is_none_or(|bucket| one.buckets().contains(bucket)));
    Body {
        title: format!("clients {}", shown.len()),
        head: table.titles(),
        rows: Row::all(shown, move |one| table.row(one)),
        empty: "nobody uses the broker",
    }
}

fn cell<const AT: usize>(client: &ClientRow<'_>, _: usize) -> (String, Style) {
    let style = match (AT, client.state()) {
        (STATE, "connected") => DIM,
        (STATE, _) => BAD,
        _ => PLAIN,
    };
    (columns()[AT].cell(client), style)
}
