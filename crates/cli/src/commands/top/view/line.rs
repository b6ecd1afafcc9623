//! Lines of the screen, and how they are made.

use std::mem;

use ratatui_core::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthChar;

use crate::text::{shortened, width};

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const HELD: Style = Style::new().fg(Color::Green);
pub(super) const WAITS: Style = Style::new().fg(Color::Yellow);
pub(super) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Pieces of text, each in its style. No text contains anything that could move a cursor.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(pub(super) Vec<(String, Style)>);

impl Line {
    pub(super) fn new(text: impl Into<String>, style: Style) -> Self {
        Self(vec![(text.into(), style)])
    }

    pub(super) fn add(mut self, text: impl Into<String>, style: Style) -> Self {
        self.0.push((text.into(), style));
        self
    }
}

/// A column of a table with rows of the type `R`.
pub(super) struct Column<R> {
    pub(super) title: &'static str,
    /// Columns get room in this order. Columns with the highest numbers are left out first.
    rank: u8,
    /// With less room than this, the column is left out.
    least: usize,
    /// More room than this does not improve the column.
    most: usize,
    is_number: bool,
    /// Makes a cell of this width.
    cell: fn(&R, usize) -> (String, Style),
}

/// A column of texts, with its title, its rank, and the least and the most room for it.
pub(super) fn text<R>(
    title: &'static str,
    rank: u8,
    least: usize,
    most: usize,
    cell: fn(&R, usize) -> (String, Style),
) -> Column<R> {
    Column { title, rank, least, most, is_number: false, cell }
}

/// A column of numbers, which stand at its right side.
pub(super) fn number<R>(
    title: &'static str,
    rank: u8,
    least: usize,
    most: usize,
    cell: fn(&R, usize) -> (String, Style),
) -> Column<R> {
    Column { is_number: true, ..text(title, rank, least, most, cell) }
}

/// The columns for which there is room, each with its width.
pub(super) struct Table<R>(Vec<(Column<R>, usize)>);

impl<R> Table<R> {
    /// A table in a line with this many columns of the terminal.
    pub(super) fn new(columns: Vec<Column<R>>, room: u16) -> Self {
        let room = usize::from(room);
        let mut ranked: Vec<_> = (0..columns.len()).collect();
        ranked.sort_by_key(|&index| columns[index].rank);
        let mut widths = vec![0; columns.len()];
        let mut taken = 0;
        for &index in &ranked {
            let gap = usize::from(taken > 0);
            let least = columns[index].least;
            if taken + gap + least <= room {
                widths[index] = least;
                taken += gap + least;
            } else if taken == 0 {
                // The first column is shown in any case, as far as there is room.
                widths[index] = room;
                taken = room;
            }
        }
        for index in ranked {
            if widths[index] > 0 {
                let more = (room - taken).min(columns[index].most.saturating_sub(widths[index]));
                widths[index] += more;
                taken += more;
            }
        }
        Self(columns.into_iter().zip(widths).filter(|(_, wide)| *wide > 0).collect())
    }

    /// The titles of the columns.
    pub(super) fn titles(&self) -> Line {
        self.line(|column, _| (column.title.to_owned(), BOLD))
    }

    /// A row. Only cells that are shown are made.
    pub(super) fn row(&self, row: &R) -> Line {
        self.line(|column, wide| (column.cell)(row, wide))
    }

    fn line(&self, cell: impl Fn(&Column<R>, usize) -> (String, Style)) -> Line {
        let mut line = Line::default();
        for (column, wide) in &self.0 {
            if !line.0.is_empty() {
                line = line.add(" ", PLAIN);
            }
            let (text, style) = cell(column, *wide);
            let text = shortened(&text, *wide);
            let padding = " ".repeat(wide.saturating_sub(width(&text)));
            line = if column.is_number {
                line.add(padding, PLAIN).add(text, style)
            } else {
                line.add(text, style).add(padding, PLAIN)
            };
        }
        line
    }
}

/// The text in lines that are no wider than this, broken at spaces where that is possible.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let gap = if line.is_empty() { "" } else { " " };
        if width(&line) + gap.len() + width(word) <= room {
            line = line + gap + word;
            continue;
        }
        if !line.is_empty() {
            lines.push(mem::take(&mut line));
        }
        // A word that is longer than a line goes on in the next one. What is wider than a line is left out.
        for char in word.chars().filter(|char| char.width().unwrap_or(0) <= room) {
            if width(&line) + char.width().unwrap_or(0) > room {
                lines.push(mem::take(&mut line));
            }
            line.push(char);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_at_spaces_and_else_where_it_must() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("abcdef g", 4), ["abcd", "ef g"]);
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("日", 1), [""]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("ab", 0), [""]);
    }

    #[test]
    fn columns_are_left_out_where_there_is_no_room() {
        let column = |rank, least, most| text("X", rank, least, most, |(), _| Default::default());
        let columns = || vec![column(0, 4, 10), column(2, 3, 3), column(1, 5, 20)];
        let widths = |room| {
            let table = Table::new(columns(), room);
            table.0.iter().map(|(column, wide)| (column.rank, *wide)).collect::<Vec<_>>()
        };
        assert_eq!(widths(100), [(0, 10), (2, 3), (1, 20)]);
        assert_eq!(widths(16), [(0, 6), (2, 3), (1, 5)]);
        assert_eq!(widths(10), [(0, 4), (1, 5)]);
        assert_eq!(widths(2), [(0, 2)]);
        assert_eq!(widths(0), []);
    }
}
