//! The pictures in docs, of real screens: `cargo xtask book --pictures` draws them.

use std::{fmt::Write, fs, os::unix::fs::symlink};

use crate::{
    book::script,
    sandbox::{NAVLOCK, Sandbox, wait},
    top::Seat,
};

const SIZE: (u16, u16) = (96, 20);

/// The size of a character, in the units of the picture.
const WIDE: f32 = 8.4;
const HIGH: f32 = 18.0;

#[test]
#[ignore = "it writes docs/top.svg: it is run by who wants that drawn anew"]
fn draws_docs_top_svg() {
    let sandbox = Sandbox::new();
    let build = sandbox.hold(&["--why", "nightly build", "target-dir"]);
    let first = sandbox.queue(&["target-dir"]);
    let second = sandbox.queue(&["target-dir"]);
    let reader = sandbox.hold(&["-s", "--why", "export", "database"]);
    let migration = sandbox.queue(&["--why", "migration 17", "database"]);
    let late = sandbox.queue(&["-s", "database"]);
    let server = sandbox.hold(&["--why", "next dev", "port-3000"]);
    let mut seat = Seat::take(&sandbox, SIZE, &[]);
    seat.sees("names 3  held 3  waiting 4");
    seat.sees_that("times that are seen", |screen| {
        let row = screen.lines().find(|line| line.starts_with("target-dir"));
        row.is_some_and(|row| row.split_whitespace().any(|word| word == "12s"))
    });
    // Runs that `top` can count.
    for _ in 0..30 {
        assert_eq!(sandbox.code(&["run", "deploy", "true"]), 0);
    }
    seat.sees("/s ");
    seat.look();
    // Show the usual place, because no user has the place of a test.
    let here = sandbox.socket().display().to_string();
    let usual = format!("{:1$}", "/tmp/navlock-42/sock", here.len());
    let picture = svg(seat.screen.screen()).replace(&here, &usual);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.svg");
    fs::write(path, picture).unwrap();
    seat.terminal.press("q");
    assert!(wait(&mut seat.terminal.leader).success());
    for holder in [build, reader, server] {
        holder.release();
    }
    for mut waiter in [first, migration, second, late] {
        waiter.begun();
        waiter.release();
    }
}

/// Two terminals, in each of them a shell with the same command.
#[test]
#[ignore = "it writes docs/two-terminals.svg: it is run by who wants that drawn anew"]
fn draws_docs_two_terminals_svg() {
    const SIZE: (u16, u16) = (82, 5);
    const LINE: &str = "navlock run db ./count";
    let sandbox = Sandbox::new();
    symlink(NAVLOCK, sandbox.path("navlock")).unwrap();
    script(&sandbox, "count", "for i in 1 2 3 4 5; do echo $i; sleep 1; done");
    // Start the broker first, so that no picture shows how long its first grant took.
    assert_eq!(sandbox.code(&["run", "db", "true"]), 0);
    let path = format!("PATH={}:/usr/bin:/bin", sandbox.path("").display());
    let sit = || {
        let line = ["env", "-u", "ENV", &path, "PS1=$ ", "sh", "-i"];
        let mut seat = Seat::take_with(&sandbox, SIZE, &line);
        seat.sees("$ ");
        seat
    };
    let (mut first, mut second) = (sit(), sit());
    first.terminal.press(&format!("{LINE}\n"));
    first.sees("\n1");
    second.terminal.press(&format!("{LINE}\n"));
    second.sees("held by count[");
    first.sees("\n3");
    let waiting = second.look();
    let mut shown = vec![("terminal 1", first.look()), ("terminal 2", waiting)];
    // ^C, as a user presses it.
    first.terminal.press("\u{3}");
    first.sees_that("the prompt is back", |screen| screen.trim_end().ends_with('$'));
    second.sees("\n2");
    shown.push(("terminal 1, after ^C", first.look()));
    shown.push(("terminal 2, at once", second.look()));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/two-terminals.svg");
    fs::write(path, terminals(SIZE, &shown)).unwrap();
    second.terminal.press("\u{3}");
    second.sees_that("the prompt", |screen| screen.trim_end().ends_with('$'));
}

/// Draws terminals, one below the other, each with its title above it.
fn terminals((columns, rows): (u16, u16), shown: &[(&str, String)]) -> String {
    const INK: &str = "#d7dae0";
    let wide = f32::from(columns) * WIDE + 16.0;
    let high = f32::from(rows) * HIGH + 34.0;
    let all = high * f32::from(u16::try_from(shown.len()).unwrap());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide:.0} {all:.0}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\" fill=\"{INK}\">\n<title>navlock run in two terminals</title>\n"
    );
    let mut top = 0.0;
    for (title, screen) in shown {
        let paper = high - 26.0;
        writeln!(
            svg,
            "<text x=\"8\" y=\"{:.1}\" font-size=\"12\" fill=\"#8a919e\">{title}</text>\n\
             <rect y=\"{:.1}\" width=\"100%\" height=\"{paper:.1}\" rx=\"6\" fill=\"#1b1e24\"/>",
            top + 15.0,
            top + 22.0
        )
        .unwrap();
        for (row, line) in (0_u16..).zip(screen.lines()) {
            let line = anybodys(line).replace('&', "&amp;").replace('<', "&lt;");
            let y = top + 30.0 + f32::from(row) * HIGH + 13.5;
            writeln!(svg, "<text x=\"8\" y=\"{y:.1}\" xml:space=\"preserve\">{line}</text>")
                .unwrap();
        }
        top += high;
    }
    svg + "</svg>\n"
}

/// The line without the process number, the user and the machine of a test.
fn anybodys(line: &str) -> String {
    let after = |(before, rest): (&str, &str)| {
        let (_, age) = rest.split_once(" for ")?;
        Some(format!("{before}held by count[4711] ada@engine for {age}"))
    };
    line.split_once("held by count[").and_then(after).unwrap_or_else(|| line.to_owned())
}

fn colour(colour: vt100::Color, usual: &'static str) -> &'static str {
    match colour {
        vt100::Color::Idx(1) => "#f14c4c",
        vt100::Color::Idx(2) => "#4ec06a",
        vt100::Color::Idx(3) => "#e2c541",
        _ => usual,
    }
}

/// Draws what is on the screen.
fn svg(screen: &vt100::Screen) -> String {
    const PAPER: &str = "#1b1e24";
    const INK: &str = "#d7dae0";
    let (rows, columns) = screen.size();
    let (width, height) = (f32::from(columns) * WIDE + 16.0, f32::from(rows) * HIGH + 16.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\">\n<title>navlock top</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{PAPER}\"/>\n"
    );
    for row in 0..rows {
        let mut column = 0;
        while column < columns {
            let look = |column: u16| {
                let cell = screen.cell(row, column).unwrap();
                (cell.fgcolor(), cell.inverse(), cell.bold(), cell.dim())
            };
            let start = column;
            let mut text = String::new();
            while column < columns && look(column) == look(start) {
                let contents = screen.cell(row, column).unwrap().contents();
                text.push_str(if contents.is_empty() { " " } else { contents });
                column += 1;
            }
            let (ink, is_inverse, is_bold, is_dim) = look(start);
            let (mut ink, mut paper) = (colour(ink, INK), PAPER);
            if is_inverse {
                (ink, paper) = (paper, ink);
            }
            let (x, y) = (8.0 + f32::from(start) * WIDE, 8.0 + f32::from(row) * HIGH);
            let wide = f32::from(column - start) * WIDE;
            if is_inverse {
                writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{HIGH}\" \
                     fill=\"{paper}\"/>"
                )
                .unwrap();
            }
            if text.trim().is_empty() {
                continue;
            }
            let lead = text.len() - text.trim_start().len();
            let shown = text.trim();
            let x = x + WIDE * f32::from(u16::try_from(lead).unwrap());
            let long = WIDE * f32::from(u16::try_from(shown.chars().count()).unwrap());
            let shown = shown.replace('&', "&amp;").replace('<', "&lt;").replace(' ', "\u{a0}");
            let bold = if is_bold { " font-weight=\"bold\"" } else { "" };
            let dim = if is_dim { " opacity=\"0.65\"" } else { "" };
            writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{long:.1}\" fill=\"{ink}\"{bold}{dim}>\
                 {shown}</text>",
                y + 13.5
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}
