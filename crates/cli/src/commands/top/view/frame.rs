//! The whole screen.

use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
};

use super::{
    body,
    line::{BAD, BOLD, DIM, Line, PLAIN, WAITS, wrapped},
    name_table::rate,
};
use crate::{
    commands::top::model::{Dialog, Model, View},
    picture::Broker,
    text::{clipped, printable, quoted_name, width},
    time::elapsed,
};

const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// With fewer rows than this, no details are shown.
const LOW: u16 = 14;

/// How many lines of details are shown at most.
const DETAILS: usize = 5;

const HELP: &[&str] = &[
    "q         quit",
    "?         this help",
    "arrows    choose a line; also j k, PgUp PgDn, Home End (g G)",
    "Enter     show the name: its queue, and its past holders (also l)",
    "Esc       back; in the table: drop the filter (also h)",
    "n t c d   names, tree, clients, deadlocks",
    "s r       sort by the next column; reverse",
    "/         show names with this text; Enter keeps it, Esc does not",
    "b         the next bucket, or all",
    "p space   pause, and go on",
    "S         steal the lock (with --allow-steal; asks first)",
    "",
    "RATE is grants a second, of the last ten; MEAN and P99 are of the",
    "waits that were seen. (name) owns a lock that it does not hold.",
];

/// Draws the whole screen.
pub(in crate::commands::top) fn draw(model: &Model, buffer: &mut Buffer) {
    let area = buffer.area;
    let mut screen = Screen { buffer, colours: model.colours };
    let (width, height) = (area.width, area.height);
    if width == 0 || height == 0 {
        return;
    }
    let body = body(model);
    screen.line(0, &status(model, width.into()));
    screen.line(1, &Line::new(&*body.title, BOLD));
    screen.line(2, &body.head);
    let chosen = body.chosen(model);
    let details = body.rows.get(chosen).filter(|_| height >= LOW).map(|row| row.details(model));
    let mut details = details.unwrap_or_default();
    details.truncate(DETAILS);
    // One row stays free above the details, and one row below them is for the hints.
    let under = if details.is_empty() { 1 } else { details.len() + 2 };
    let rows = usize::from(height).saturating_sub(3 + under);
    let top = chosen.saturating_sub(rows / 2).min(body.rows.len().saturating_sub(rows));
    for (y, (index, row)) in (3..).zip(body.rows.iter().enumerate().skip(top).take(rows)) {
        screen.line(y, &(row.line)());
        if index == chosen {
            screen.restyle(y, REVERSED);
        }
    }
    if body.rows.is_empty() && rows > 0 {
        screen.line(3, &Line::new(body.empty, DIM));
    }
    for (row, line) in details.iter().rev().enumerate() {
        let above = u16::try_from(row).unwrap_or(u16::MAX).saturating_add(2);
        screen.line(height.saturating_sub(above), line);
    }
    if height > 3 {
        screen.line(height - 1, &hints(model, width.into()));
    }
    match &model.dialog {
        Some(Dialog::Help) => {
            let lines: Vec<_> = HELP.iter().map(|line| (*line).to_owned()).collect();
            screen.window("keys", &lines);
        }
        Some(Dialog::Steal(..)) => screen.window("steal?", &question(model, width.into())),
        Some(Dialog::Filter(_)) | None => {}
    }
}

/// `navlock top  /run/user/1000/navlock/sock  buckets 3  events 120/s  DEADLOCKS 2 (d)`.
fn status(model: &Model, room: usize) -> Line {
    let data = model.data();
    let mut line = Line::new("navlock top", BOLD);
    if model.is_paused() {
        line = line.add("  PAUSED", BAD);
    }
    match &data.broker {
        Broker::Running | Broker::Stopped(_) => {}
        Broker::Unknown => line = line.add("  asking the broker", DIM),
        Broker::None => {
            line = line.add("  no broker is running: nobody holds anything", WAITS);
        }
        Broker::Failed(why) => line = line.add(format!("  {}", printable(why)), BAD),
    }
    if !data.deadlocks.is_empty() {
        let certain = data.deadlocks.iter().filter(|deadlock| deadlock.is_certain).count();
        let told = match (certain, data.deadlocks.len()) {
            (0, count) => format!("  possible deadlocks {count} (d)"),
            (count, _) => format!("  DEADLOCKS {count} (d)"),
        };
        line = line.add(told, BAD);
    }
    let bucket = match &model.bucket {
        Some(bucket) => format!("  bucket {}", clipped(&printable(bucket), 24)),
        None => format!("  buckets {}", data.buckets().len()),
    };
    line = line.add(bucket, PLAIN);
    let events = rate(data.events.per_second(data.past.second(data.now)));
    if !events.is_empty() {
        line = line.add(format!("  events {events}"), PLAIN);
    }
    if data.missed > 0 {
        line = line.add(format!("  missed {}", data.missed), WAITS);
    }
    if data.overview().left_out > 0 {
        line = line.add(format!("  not shown {}", data.overview().left_out), WAITS);
    }
    let taken: usize = line.0.iter().map(|(text, _)| width(text)).sum();
    let socket = printable(&model.socket);
    if taken + 2 + width(&socket) <= room {
        line = line.add(format!("  {socket}"), DIM);
    }
    line
}

/// The last row: a question, a message, or the keys that can be pressed.
fn hints(model: &Model, room: usize) -> Line {
    if matches!(model.dialog, Some(Dialog::Filter(_))) {
        let text = printable(&model.filter);
        // The end of a long text is shown, because the user writes there.
        let mut text = text.as_str();
        while width(text) + 2 > room && !text.is_empty() {
            let first = text.chars().next().map_or(0, char::len_utf8);
            text = &text[first..];
        }
        return Line::new("/", BOLD).add(text, PLAIN).add("_", BOLD);
    }
    if let Some(message) = &model.message {
        return Line::new(printable(message), WAITS);
    }
    let filter = match model.filter.as_str() {
        "" => String::new(),
        filter => format!("names with \"{}\" (Esc: all)  ", clipped(&printable(filter), 24)),
    };
    let back = match model.place().view {
        View::Names => "",
        _ => "Esc back  ",
    };
    let hints = "q quit  ? help  Enter show  s sort  / filter  t tree  c clients  d deadlocks";
    Line::new(filter, WAITS).add(format!("{back}{hints}"), DIM)
}

/// The question before a lock is stolen.
fn question(model: &Model, room: usize) -> Vec<String> {
    let Some(Dialog::Steal(name, from)) = &model.dialog else { return Vec::new() };
    let data = model.data();
    let seen = model.see();
    let held = data.overview().queues.get(name).map_or(&[][..], |queue| &queue.held);
    let mut victims: Vec<_> = from
        .iter()
        .take(3)
        .map(|(id, _)| {
            let entry = held.iter().find(|entry| entry.id == *id);
            let age = entry.map(|entry| format!(" for {}", elapsed(entry.age(data.now))));
            let why = entry.map(|entry| seen.why(entry)).unwrap_or_default();
            format!("{}{}{why}", seen.who(id.client_id), age.unwrap_or_default())
        })
        .collect();
    if from.len() > 3 {
        victims.push(format!("{} others", from.len() - 3));
    }
    let room = room.saturating_sub(6).min(70);
    let holds = if from.len() == 1 { "It is" } else { "They are" };
    let texts = [
        format!("{} is held by {}.", quoted_name(&name.name), victims.join(", ")),
        format!(
            "{holds} told that the lock is lost, but may be at work on what it guards still; a command of \
             'navlock run' is told to end. Whoever is next in the queue has the lock then."
        ),
        "y takes it from them; every other key does not.".to_owned(),
    ];
    texts.iter().flat_map(|text| wrapped(text, room)).collect()
}

struct Screen<'a> {
    buffer: &'a mut Buffer,
    colours: bool,
}

impl Screen<'_> {
    /// The style, without colours if the user wants none. Everything that colours say is also said
    /// in words.
    fn style(&self, style: Style) -> Style {
        let without = |colour: Option<Color>| colour.filter(|_| self.colours);
        Style { fg: without(style.fg), bg: without(style.bg), ..style }
    }

    /// Draws a whole row from its beginning, if there is such a row.
    fn line(&mut self, y: u16, line: &Line) {
        let area = self.buffer.area;
        if y >= area.height {
            return;
        }
        let mut x = 0;
        let mut left = usize::from(area.width);
        for (text, style) in &line.0 {
            let text = clipped(text, left);
            let style = self.style(*style);
            (x, _) = self.buffer.set_stringn(x, y, &text, left, style);
            left = usize::from(area.width.saturating_sub(x));
            if left == 0 {
                break;
            }
        }
    }

    fn restyle(&mut self, y: u16, style: Style) {
        let area = Rect { y, height: 1, ..self.buffer.area };
        self.buffer.set_style(area, style);
    }

    /// Draws lines in the middle of the screen, over what is there.
    fn window(&mut self, title: &str, lines: &[String]) {
        let area = self.buffer.area;
        let wide = lines.iter().map(|line| width(line)).max().unwrap_or(0).max(width(title) + 2);
        let wide = u16::try_from(wide + 4).unwrap_or(u16::MAX).min(area.width);
        let high = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
        let (x, y) = ((area.width - wide) / 2, (area.height - high) / 2);
        if wide < 4 || high < 3 {
            return;
        }
        let inner = usize::from(wide) - 4;
        let filled = |text: &str, with: &str, wide: usize| {
            let text = clipped(text, wide);
            let rest = wide.saturating_sub(width(&text));
            text + &with.repeat(rest)
        };
        let mut rows = vec![format!("┌{}┐", filled(&format!(" {title} "), "─", inner + 2))];
        let lines = lines.iter().take(usize::from(high) - 2);
        rows.extend(lines.map(|line| format!("│ {} │", filled(line, " ", inner))));
        rows.push(format!("└{}┘", filled("", "─", inner + 2)));
        for (row, text) in (y..).zip(rows) {
            // A wide character that begins before the window and would reach into it is removed as
            // well.
            for column in x.saturating_sub(1)..x + wide {
                if column >= x || width(self.buffer[(column, row)].symbol()) > 1 {
                    self.buffer[(column, row)].reset();
                }
            }
            self.buffer.set_stringn(x, row, text, wide.into(), PLAIN);
        }
    }
}
