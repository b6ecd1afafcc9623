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

/// A column of a table with rows of the type `R`: its title, what it does where there is not enough room, and
/// what a row tells in it, if it tells anything.
pub(crate) struct Column<R>(
    pub(crate) &'static str,
    pub(crate) Fit,
    pub(crate) fn(&R) -> Option<String>,
);

impl<R> Column<R> {
    /// A cell. Every cell has a word, so that scripts can split a line.
    pub(crate) fn cell(&self, row: &R) -> String {
        (self.2)(row).filter(|cell| !cell.is_empty()).unwrap_or_else(|| "-".to_owned())
    }
}

/// The lines of the table. Each ends with a line break, and begins with a cell in the style of the row.
pub(crate) fn render<R>(
    columns: &[Column<R>],
    rows: &[R],
    style: impl Fn(&R) -> Style,
    widest: Option<usize>,
    colours: bool,
) -> String {
    let cells = |row| columns.iter().map(|column| column.cell(row)).collect::<Vec<_>>();
    let rows: Vec<_> = rows.iter().map(|row| (cells(row), style(row))).collect();
    let natural = columns.iter().enumerate().map(|(index, Column(title, fit, _))| {
        let cells = rows.iter().map(|(cells, _)| width(&cells[index]));
        let longest = cells.chain([width(title)]).max().unwrap_or(0);
        match fit {
            Fit::Flexible(most) | Fit::Last(most) => longest.min(*most.max(&width(title))),
            Fit::Fixed => longest,
        }
    });
    let widths = match widest {
        Some(widest) => fitted(columns, natural.collect(), widest),
        None => natural.collect(),
    };
    let titles: Vec<_> = columns.iter().map(|column| column.0.to_owned()).collect();
    let mut text = painted(&line(&titles, PLAIN, &widths, widest, colours), TITLE, colours) + "\n";
    for (cells, style) in &rows {
        text += &(line(cells, *style, &widths, widest, colours) + "\n");
    }
    text
}

/// The widths of the columns, reduced as far as they may be until the table is no wider than the
/// terminal.
fn fitted<R>(columns: &[Column<R>], mut widths: Vec<usize>, widest: usize) -> Vec<usize> {
    let total = |widths: &[usize]| {
        let shown = widths.iter().filter(|&&width| width > 0);
        shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
    };
    for (index, column) in columns.iter().enumerate().rev() {
        if matches!(column.1, Fit::Last(_)) {
            let over = total(&widths).saturating_sub(widest);
            widths[index] = widths[index].saturating_sub(over);
            if over > 0 && widths[index] < NARROWEST {
                widths[index] = 0;
            }
        }
    }
    while total(&widths) > widest {
        let flexible = columns.iter().enumerate().filter(|(index, column)| {
            let least = NARROWEST.max(width(column.0));
            matches!(column.1, Fit::Flexible(_)) && widths[*index] > least
        });
        let Some((index, _)) = flexible.max_by_key(|(index, _)| widths[*index]) else { break };
        widths[index] -= 1;
    }
    widths
}

/// A line with these cells, the first of them in this style.
fn line(
    cells: &[String],
    style: Style,
    widths: &[usize],
    widest: Option<usize>,
    colours: bool,
) -> String {
    let mut line = String::new();
    let mut taken = 0;
    let shown = cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0);
    for (index, (cell, &column)) in shown {
        let start = if taken == 0 { 0 } else { taken + GAP };
        // If even the narrowest columns do not fit, the line is cut off.
        let room = widest.map_or(usize::MAX, |widest| widest.saturating_sub(start));
        if room == 0 {
            break;
        }
        let cell = shortened(cell, column.min(room));
        line.push_str(if taken == 0 { "" } else { "  " });
        line.push_str(&painted(&cell, if index == 0 { style } else { PLAIN }, colours));
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

    fn painted_table(rows: &[[&str; 4]], widest: Option<usize>, colours: bool) -> String {
        let columns = [
            Column("STATE", Fit::Fixed, |row: &[&str; 4]| Some(row[0].to_owned())),
            Column("NAME", Fit::Flexible(48), |row| Some(row[1].to_owned())),
            Column("WHY", Fit::Flexible(40), |row| Some(row[2].to_owned())),
            Column("CLIENT", Fit::Last(40), |row| Some(row[3].to_owned())),
        ];
        render(&columns, rows, |_| GOOD, widest, colours)
    }

    fn table(rows: &[[&str; 4]], widest: Option<usize>) -> String {
        painted_table(rows, widest, false)
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let shown = table(&[["held", "日本", "", "c1"], ["pending", "db", "it", "c2"]], None);
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
        let shown = painted_table(&[["held"; 4]], None, true);
        assert!(shown.contains("\u{1b}[32mheld\u{1b}[0m "), "{shown:?}");
        assert!(shown.starts_with("\u{1b}[1mSTATE"), "{shown:?}");
    }
}
