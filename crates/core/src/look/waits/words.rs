//! Deadlocks in words.

use std::{fmt, time::Instant};

use super::{Deadlock, Member, Why};
use crate::{AgentInfo, ClientId, clip::clip_chars, elapsed::elapsed, printable::printable};

/// For how many requests of a deadlock the text says who waits for what.
const MOST_LINES: usize = 32;

/// The longest text of others that is shown.
const WIDEST: usize = 60;

/// The longest name of a program that is shown.
const WIDEST_PROGRAM: usize = 28;

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(Instant::now()))
    }
}

impl Deadlock {
    /// The deadlock in words, as of this moment: a line for the whole, and a line for each request,
    /// which begins with two spaces.
    pub fn told(&self, now: Instant) -> String {
        let mut told = self.headline().to_owned();
        for line in self.lines(now) {
            told.push_str("\n  ");
            told.push_str(&line);
        }
        told
    }

    /// What the deadlock is, in one sentence, without its members.
    pub fn headline(&self) -> &'static str {
        if self.is_certain {
            "deadlock: these wait for each other, and none goes on unless one of them ends"
        } else {
            "possible deadlock: these wait for each other if each holds its locks until it has been granted \
             what it waits for"
        }
    }

    /// A line for each request: who waits for what, for whose sake, and who is in the way.
    pub fn lines(&self, now: Instant) -> Vec<String> {
        let members = self.members.iter();
        let before = self.members.iter().cycle().skip(self.members.len().saturating_sub(1));
        let after = self.members.iter().cycle().skip(1);
        let each = before.zip(members).zip(after);
        let requests = each.filter(|((_, member), _)| !member.is_held);
        let told = requests.take(MOST_LINES);
        let mut lines: Vec<_> =
            told.map(|((before, member), after)| member.line(before, after, now)).collect();
        let all = self.members.iter().filter(|member| !member.is_held).count();
        if all > MOST_LINES {
            lines.push(format!("… and {} more", all - MOST_LINES));
        }
        lines
    }
}

impl Member {
    /// The agent in words for people: the program, the process id, the user, the machine, and what
    /// the agent wants its locks for.
    pub fn who(&self) -> String {
        who(self.agent.as_deref(), self.entry.id.client_id)
    }

    /// The line of a request, from the one before it and the one after it.
    fn line(&self, before: &Self, after: &Self, now: Instant) -> String {
        let (who, what, holds) = (self.who(), self.what(now), before.what(now));
        let waits = match before.why {
            Why::Inside if before.entry.id.client_id == self.entry.id.client_id => {
                format!("{who} holds {holds} and inside it waits")
            }
            Why::Inside => format!("{} holds {holds}, and inside it {who} waits", before.who()),
            Why::SameAgent => format!("{who} holds {holds} and also waits"),
            Why::InsideAgent => {
                format!("{} holds {holds}, and perhaps inside it {who} waits", before.who())
            }
            Why::Held | Why::Ahead => format!("{who} waits"),
        };
        let way = if after.is_held { "held by" } else { "behind the request of" };
        format!("{waits} for {what}, {way} {}", after.who())
    }

    /// `"db" (exclusive) for 3s`; without the time if this is less than a second, or not known.
    fn what(&self, now: Instant) -> String {
        let (name, mode) = (clipped(&format!("{:?}", self.name.name)), self.entry.mode);
        match self.entry.age(now) {
            age if age.as_secs() == 0 => format!("{name} ({mode})"),
            age if self.entry.is_older => format!("{name} ({mode}) for over {}", elapsed(age)),
            age => format!("{name} ({mode}) for {}", elapsed(age)),
        }
    }
}

/// An agent in words for people: see [`Member::who`].
pub(crate) fn who(agent: Option<&AgentInfo>, client_id: ClientId) -> String {
    let who = process(agent, client_id);
    let Some(agent) = agent else { return who };
    let host = match (agent.user.as_str(), agent.host.as_str()) {
        ("", _) | (_, "") => String::new(),
        (user, host) => format!(" {}@{}", shown(user), shown(host)),
    };
    let why = match agent.why.as_str() {
        "" => String::new(),
        why => format!(" ({})", shown(why)),
    };
    who + &host + &why
}

/// The process of an agent for people: `make[4711]`, or what else is known of it.
pub fn process(agent: Option<&AgentInfo>, client_id: ClientId) -> String {
    let known = agent.map(|agent| (program(&agent.command), agent.pid));
    match known {
        Some((program, pid)) if !program.is_empty() => format!("{program}[{pid}]"),
        Some((_, pid @ 1..)) => format!("process {pid}"),
        _ => format!("client {client_id}"),
    }
}

/// The program of a command line for people, without its path. `navlock run` is shown with the program that it will
/// run, and an interpreter with its script, because their own names tell nobody from another.
pub fn program(command: &str) -> String {
    let (before, work) = match command.strip_prefix("navlock run ") {
        Some(work) => ("navlock run ", work),
        None => ("", command),
    };
    let mut names = work.split_whitespace().map(|word| {
        let name = word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word);
        shortened(&printable(name))
    });
    let name = names.next().unwrap_or_default();
    let script = names.next().filter(|script| is_interpreter(&name) && !script.starts_with('-'));
    format!("{before}{name}{}", script.map_or_else(String::new, |script| format!(" {script}")))
}

/// Whether a program of this name runs scripts, by which people know its processes.
pub fn is_interpreter(name: &str) -> bool {
    let version = |char: char| char.is_ascii_digit() || char == '.';
    ["node", "deno", "bun", "python"].contains(&name.trim_end_matches(version))
}

/// A text of others, without anything that could do something to a terminal.
fn shown(text: &str) -> String {
    clipped(&printable(text))
}

fn clipped(text: &str) -> String {
    match clip_chars(text, WIDEST) {
        whole if whole.len() == text.len() => whole.to_owned(),
        beginning => format!("{beginning}…"),
    }
}

/// The name of a program, or its beginning and its end: programs differ at the end as often as at the beginning.
fn shortened(name: &str) -> String {
    let before_end = name.char_indices().rev().nth(WIDEST_PROGRAM / 2 - 1);
    match (clip_chars(name, WIDEST_PROGRAM), before_end) {
        (cut, Some((end, _))) if cut.len() < name.len() => {
            format!("{}…{}", clip_chars(name, WIDEST_PROGRAM / 2 - 1), &name[end..])
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_by_what_tells_it_from_others() {
        for (command, name) in [
            ("make -j4", "make"),
            ("/usr/bin/make", "make"),
            ("./x/ y", "x"),
            ("", ""),
            ("\u{1b}x", r"\u{1b}x"),
            ("navlock run /opt/bin/deploy --key x", "navlock run deploy"),
            ("navlock run ./a\u{1b}", r"navlock run a\u{1b}"),
            ("deploy-europe-west-production", "deploy-europe…est-production"),
            ("navlock hold db", "navlock"),
            ("/usr/bin/node /app/server.js", "node server.js"),
            ("navlock run node server.js", "navlock run node server.js"),
            ("python3.11 -c x", "python3.11"),
        ] {
            assert_eq!(program(command), name);
        }
    }
}
