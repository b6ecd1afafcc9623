//! Tables: aligned, and no wider than the terminal.

use anstyle::{AnsiColor, Style};

use crate::{
    terminal::painted,
    text::{shortened, width},
};

/// The width of the gap between two columns.
const GAP: usize = 2;

/// A column with less room than this is left out, if it may be.
const NARROWEST: usize = 8;

const TITLE: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const POOR: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const PLAIN: Style = Style::new();

/// What a column does where there is not enough room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Keeps its width.
    Fixed,
    /// Is never wider than this, and gives way. The widest such column is the first to give way.
    Flexible(usize),
    /// Is never wider than this, and gives way before all others, the last such column first.
    Last(usize),
}

pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) fit: Fit,
}

/// The cells of one line. The first cell has a style.
pub(crate) struct Row {
    pub(crate) cells: Vec<String>,
    pub(crate) style: Style,
}

/// The lines of the table. Each ends with a line break.
pub(crate) fn render(
    columns: &[Column],
    rows: &[Row],
    widest: Option<usize>,
    colours: bool,
) -> String {
    let natural: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let cells = rows.iter().map(|row| width(&row.cells[index]));
            let longest = cells.chain([width(column.title)]).max().unwrap_or(0);
            match column.fit {
                Fit::Flexible(most) | Fit::Last(most) => longest.min(most.max(width(column.title))),
                Fit::Fixed => longest,
            }
        })
        .collect();
    let widths = match widest {
        Some(widest) => fitted(columns, natural, widest),
        None => natural,
    };
    let mut text = String::new();
    let titles: Vec<_> = columns.iter().map(|column| column.title.to_owned()).collect();
    let title = Row { cells: titles, style: PLAIN };
    for (index, row) in std::iter::once(&title).chain(rows).enumerate() {
        let line = line(row, &widths, widest, colours);
        text.push_str(&if index == 0 { painted(&line, TITLE, colours) } else { line });
        text.push('\n');
    }
    text
}

/// The widths of the columns, reduced as far as they may be until the table is no wider than the
/// terminal.
fn fitted(columns: &[Column], mut widths: Vec<usize>, widest: usize) -> Vec<usize> {
    let total = |widths: &[usize]| {
        let shown = widths.iter().filter(|&&width| width > 0);
        shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
    };
    for (index, column) in columns.iter().enumerate().rev() {
        if matches!(column.fit, Fit::Last(_)) {
            let over = total(&widths).saturating_sub(widest);
            widths[index] = widths[index].saturating_sub(over);
            if over > 0 && widths[index] < NARROWEST {
                widths[index] = 0;
            }
        }
    }
    while total(&widths) > widest {
        let flexible = columns.iter().enumerate().filter(|(index, column)| {
            let least = NARROWEST.max(width(column.title));
            matches!(column.fit, Fit::Flexible(_)) && widths[*index] > least
        });
        let Some((index, _)) = flexible.max_by_key(|(index, _)| widths[*index]) else { break };
        widths[index] -= 1;
    }
    widths
}

fn line(row: &Row, widths: &[usize], widest: Option<usize>, colours: bool) -> String {
    let mut line = String::new();
    let mut taken = 0;
    let shown = row.cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0);
    for (index, (cell, &column)) in shown {
        let start = if taken == 0 { 0 } else { taken + GAP };
        // If even the narrowest columns do not fit, the line is cut off.
        let room = widest.map_or(usize::MAX, |widest| widest.saturating_sub(start));
        if room == 0 {
            break;
        }
        let cell = shortened(cell, column.min(room));
        line.push_str(if taken == 0 { "" } else { "  " });
        line.push_str(&painted(&cell, if index == 0 { row.style } else { PLAIN }, colours));
        let padding = column.min(room) - width(&cell);
        line.extend(std::iter::repeat_n(' ', padding));
        taken = start + column.min(room);
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { title: "STATE", fit: Fit::Fixed },
        Column { title: "NAME", fit: Fit::Flexible(48) },
        Column { title: "WHY", fit: Fit::Flexible(40) },
        Column { title: "CLIENT", fit: Fit::Last(40) },
    ];

    fn table(rows: &[[&str; 4]], widest: Option<usize>) -> String {
        let row = |cells: &[&str; 4]| Row {
            cells: cells.iter().map(ToString::to_string).collect(),
            style: GOOD,
        };
        render(&COLUMNS, &rows.iter().map(row).collect::<Vec<_>>(), widest, false)
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let shown = table(&[["held", "日本", "-", "c1"], ["pending", "db", "it", "c2"]], None);
        assert_eq!(
            shown,
            "STATE    NAME  WHY  CLIENT\n\
             held     日本  -    c1\n\
             pending  db    it   c2\n"
        );
    }

    #[test]
    fn the_last_column_gives_way_first_then_the_widest() {
        let row = [["held", &"n".repeat(60)[..], &"w".repeat(20), "0123456789abcdef"]];
        let width_of = |widest| table(&row, Some(widest)).lines().map(width).max().unwrap();
        for widest in 20..120 {
            assert!(width_of(widest) <= widest, "{widest}");
        }
        let shown = table(&row, Some(90));
        assert!(
            shown.contains(&format!(
                "{}…{}  {}  0123",
                "n".repeat(24),
                "n".repeat(23),
                "w".repeat(20)
            )),
            "{shown}"
        );
        let shown = table(&row, Some(50));
        assert!(!shown.contains("CLIENT"), "{shown}");
        assert!(shown.contains("w  ") || shown.contains(&"w".repeat(20)), "{shown}");
    }

    #[test]
    fn only_colours_tell_a_painted_table_from_a_plain_one() {
        let row = || Row { cells: vec!["held".to_owned(); 4], style: GOOD };
        let shown = render(&COLUMNS, &[row()], None, true);
        assert!(shown.contains("\u{1b}[32mheld\u{1b}[0m "), "{shown:?}");
        assert!(shown.starts_with("\u{1b}[1mSTATE"), "{shown:?}");
    }
}
