//! `navlock top`, on a terminal.

use std::os::unix::process::ExitStatusExt;

use rustix::{
    process::{Pid, Signal, kill_process},
    termios::{LocalModes, tcgetattr},
};

use crate::{
    sandbox::{NAVLOCK, Output, Sandbox, eventually, wait},
    terminal::{Terminal, resize},
};

/// What a user in front of `top` sees.
pub(crate) struct Seat {
    pub(crate) terminal: Terminal,
    pub(crate) screen: vt100::Parser,
    /// How much of the output is on the screen.
    read: usize,
}

impl Seat {
    pub(crate) fn take(sandbox: &Sandbox, size: (u16, u16), arguments: &[&str]) -> Self {
        Self::take_with(sandbox, size, &[&[NAVLOCK, "top"], arguments].concat())
    }

    pub(crate) fn take_with(sandbox: &Sandbox, size: (u16, u16), line: &[&str]) -> Self {
        let terminal = Terminal::run_program(sandbox, size, line);
        let screen = vt100::Parser::new(size.1, size.0, 0);
        Self { terminal, screen, read: 0 }
    }

    pub(crate) fn look(&mut self) -> String {
        self.terminal.look();
        self.screen.process(&self.terminal.seen[self.read..]);
        self.read = self.terminal.seen.len();
        self.screen.screen().contents()
    }

    pub(crate) fn sees(&mut self, what: &str) -> String {
        self.sees_that(what, |screen| screen.contains(what))
    }

    /// Waits until all of this is on the screen at once: one drawing may come in pieces.
    fn sees_all(&mut self, what: &str, all: &[&str]) -> String {
        self.sees_that(what, |screen| all.iter().all(|one| screen.contains(one)))
    }

    pub(crate) fn sees_that(&mut self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        eventually(&format!("{what:?} is seen"), || {
            screen = self.look();
            is(&screen)
        });
        screen
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.look();
        // Terminals do this as well; what was on the screen is drawn over.
        self.screen.screen_mut().set_size(size.1, size.0);
        resize(self.terminal.keys.as_ref().unwrap(), size);
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(self.terminal.keys.as_ref().unwrap()).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Checks that the terminal is as it was before.
    fn is_given_back(&mut self) {
        let modes = tcgetattr(self.terminal.keys.as_ref().unwrap()).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG));
        // The last output may still be on its way.
        eventually("the screen is as before", || {
            self.look();
            let screen = self.screen.screen();
            let is_as_before = !screen.alternate_screen() && !screen.hide_cursor();
            is_as_before && screen.contents().trim().is_empty()
        });
    }
}

#[test]
fn events_are_shown_as_they_happen_and_the_terminal_is_restored_at_the_end() {
    let sandbox = Sandbox::new();
    let mut seat = Seat::take(&sandbox, (80, 24), &[]);
    seat.sees("no broker is running: nobody holds anything");
    assert!(seat.is_raw() && seat.screen.screen().alternate_screen());
    let holder = sandbox.hold(&["--why", "nightly", "db"]);
    let pid = holder.command().as_raw_nonzero().get();
    seat.sees(&format!("sh[{pid}]"));
    seat.sees(&format!("kill {pid}   ends it"));
    let mut waiter = sandbox.queue(&["db"]);
    seat.sees("names 1  held 1  waiting 1");
    seat.terminal.press("\r");
    seat.sees_all("the name", &["waits 1", "held", "nightly"]);
    holder.release();
    waiter.begun();
    seat.sees_that("the end of the first", |screen| screen.contains("released"));
    waiter.release();
    seat.terminal.press("\u{1b}");
    // The counts stand above the view of a name as well, so look for a column of the table too.
    seat.sees_all("the table", &["P99", "names 1  held 0  waiting 0"]);
    seat.terminal.press("q");
    assert!(wait(&mut seat.terminal.leader).success());
    seat.is_given_back();
}

#[test]
fn top_fits_a_terminal_whose_size_changes() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["a-name-that-is-seen"]);
    let mut seat = Seat::take(&sandbox, (80, 24), &[]);
    seat.sees("P99");
    for size in [(40, 10), (200, 60), (80, 24), (12, 3), (100, 30)] {
        seat.resize(size);
        let is_drawn = |screen: &str| {
            let rows: Vec<_> = screen.lines().collect();
            // The last row is in the last row, and nothing is further to the right than there is room.
            rows.len() <= usize::from(size.1)
                && (size.1 < 4
                    || rows.len() == usize::from(size.1)
                        && rows[rows.len() - 1].starts_with("q quit"))
                && (size.1 < 4 || screen.matches("navlock top").count() == 1)
                && (size.0 < 80 || screen.contains("P99"))
                && (size.1 < 4 || screen.contains("a-na"))
        };
        seat.sees_that(&format!("a screen of {size:?}"), is_drawn);
    }
    seat.terminal.press("q");
    assert!(wait(&mut seat.terminal.leader).success());
    seat.is_given_back();
    holder.release();
}

#[test]
fn whatever_ends_it_the_terminal_is_given_back() {
    let sandbox = Sandbox::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut seat = Seat::take(&sandbox, (80, 24), &[]);
        seat.sees("navlock top");
        let leader = Pid::from_child(&seat.terminal.leader);
        kill_process(leader, signal).unwrap();
        assert_eq!(wait(&mut seat.terminal.leader).signal(), Some(signal.as_raw()));
        seat.is_given_back();
    }
    let mut seat = Seat::take(&sandbox, (80, 24), &[]);
    seat.sees("navlock top");
    seat.terminal.press("\u{3}");
    assert_eq!(wait(&mut seat.terminal.leader).signal(), Some(2));
    seat.is_given_back();
    let mut seat = Seat::take(&sandbox, (80, 24), &[]);
    seat.sees("navlock top");
    drop(seat.terminal.keys.take());
    assert_eq!(wait(&mut seat.terminal.leader).signal(), Some(1));
}

#[test]
fn top_can_be_suspended_and_brought_back() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let script =
        "set -m; \"$NAVLOCK\" top; echo \"stopped: $?\"; read line; fg; echo \"ended: $?\"";
    let mut seat = Seat::take_with(&sandbox, (80, 24), &["sh", "-c", script]);
    seat.sees("db ");
    seat.terminal.press("\u{1a}");
    let screen = seat.sees("stopped: 1");
    assert!(!screen.contains("navlock top  "), "{screen}");
    assert!(!seat.is_raw() && !seat.screen.screen().alternate_screen());
    seat.terminal.press("\n");
    seat.sees("names 1  held 1");
    assert!(seat.is_raw() && seat.screen.screen().alternate_screen());
    seat.terminal.press("q");
    seat.sees("ended: 0");
    assert!(wait(&mut seat.terminal.leader).success());
    assert!(!seat.is_raw());
    // If there is no shell to come back to, `top` goes on.
    let mut seat = Seat::take(&sandbox, (80, 24), &[]);
    seat.sees("db ");
    seat.terminal.press("\u{1a}");
    seat.terminal.press("t");
    seat.sees("nobody waits");
    seat.terminal.press("q");
    assert!(wait(&mut seat.terminal.leader).success());
    holder.release();
}

#[test]
fn a_lock_is_stolen_after_it_was_asked_and_said_from_whom() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let pid = holder.command().as_raw_nonzero().get();
    let mut waiter = sandbox.queue(&["db"]);
    let mut seat = Seat::take(&sandbox, (80, 24), &["--allow-steal"]);
    seat.sees("names 1");
    seat.terminal.press("S");
    seat.sees(&format!("\"db\" is held by sh[{pid}] for "));
    seat.terminal.press("n");
    seat.sees("nothing was stolen");
    seat.terminal.press("Sy");
    seat.sees("\"db\" was stolen; it goes to the next waiter");
    assert_eq!(holder.ended().code(), Some(75));
    waiter.begun();
    waiter.release();
    seat.terminal.press("q");
    assert!(wait(&mut seat.terminal.leader).success());
}

#[test]
fn hostile_names_do_nothing_to_the_terminal() {
    let sandbox = Sandbox::new();
    let long = "x\u{1b}[31m".repeat(20_000);
    let names = ["\u{1b}[2J\u{1b}]0;title\u{7}", "a\u{202e}b", "\r\n\u{9b}31m", "日本語", &long];
    let hold = |name: &&str| {
        let why: String = name.chars().take(50).collect();
        sandbox.hold(&["--why", &why, name])
    };
    let holders: Vec<_> = names.iter().map(hold).collect();
    let mut seat = Seat::take(&sandbox, (80, 24), &[]);
    let names = [r#""\u{1b}"#, r#""a\u{202e}b""#, "日本語"];
    let screen = seat.sees_all("all names", &[&["names 5  held 5", "q quit"], &names[..]].concat());
    let lines: Vec<_> = screen.lines().collect();
    assert!(lines[0].starts_with("navlock top") && lines.len() == 24, "{screen}");
    // There is no title, nor another sequence of this kind.
    assert!(!seat.terminal.look().contains("\u{1b}]"));
    for key in ["\r", "\u{1b}", "t", "c", "d"] {
        seat.terminal.press(key);
    }
    seat.sees("no deadlocks");
    seat.terminal.press("q");
    assert!(wait(&mut seat.terminal.leader).success());
    seat.is_given_back();
    for holder in holders {
        holder.release();
    }
}

#[test]
fn where_nothing_can_be_drawn_it_says_what_there_is_instead() {
    let sandbox = Sandbox::new();
    let says = |output: Output| {
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        let said = output.stderr;
        assert!(said.contains("navlock query --watch") && said.contains("navlock watch"), "{said}");
        assert!(output.stdout.is_empty());
    };
    says(sandbox.output(&["top"]));
    let script = "TERM=dumb exec \"$NAVLOCK\" top";
    let mut seat = Seat::take_with(&sandbox, (80, 24), &["sh", "-c", script]);
    assert_eq!(wait(&mut seat.terminal.leader).code(), Some(64));
    seat.terminal.sees("navlock query --watch");
    seat.look();
    assert!(!seat.screen.screen().alternate_screen());
}

#[test]
fn no_color_has_no_colours() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    for (script, colours) in
        [("exec \"$NAVLOCK\" top", true), ("NO_COLOR=1 exec \"$NAVLOCK\" top", false)]
    {
        let mut seat = Seat::take_with(&sandbox, (80, 24), &["sh", "-c", script]);
        // The screen is drawn up to its last row.
        seat.sees_all("a screen", &["names 1", "db ", "q quit"]);
        let screen = seat.screen.screen();
        let cells =
            (0..24).flat_map(|row| (0..80).filter_map(move |column| screen.cell(row, column)));
        let has = cells.clone().any(|cell| cell.fgcolor() != vt100::Color::Default);
        assert_eq!(has, colours);
        assert!({ cells }.any(vt100::Cell::inverse));
        seat.terminal.press("q");
        assert!(wait(&mut seat.terminal.leader).success());
    }
    holder.release();
}

#[test]
fn keys_are_heard_while_the_broker_does_not_answer() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let broker = sandbox.broker().unwrap();
    kill_process(broker, Signal::STOP).unwrap();
    let mut seat = Seat::take(&sandbox, (80, 24), &[]);
    seat.sees("asking the broker");
    seat.terminal.press("?");
    seat.sees("this help");
    seat.terminal.press("q");
    let ended = wait(&mut seat.terminal.leader);
    kill_process(broker, Signal::CONT).unwrap();
    assert!(ended.success());
    seat.is_given_back();
    holder.release();
}
