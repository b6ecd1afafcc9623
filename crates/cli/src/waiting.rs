//! The line that people see during a wait: for what and for how long, who holds it, and how many
//! are ahead.

use std::{
    fmt::Write as _,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use navlock::{
    Error, Inspected, LockManager, Mode, Place, Position, ResourceName, UnreachableKind,
    host::process,
};

use crate::{
    exit,
    remedy::line_if_stopped,
    settings::kind_at,
    terminal,
    text::{WIDEST_NAME, clipped, meta, printable, shortened, user_at_host},
    time::elapsed,
    verbosity::Verbosity,
};

/// For how long nothing is written at first.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// How often a line on a terminal is written anew.
const REDRAWN: Duration = Duration::from_secs(1);

/// When lines that stay are written, in seconds from the beginning. Afterwards, they are written
/// every [`EVERY`] seconds.
const SAID: [u64; 3] = [1, 10, 60];

/// The time between later lines, in seconds.
const EVERY: u64 = 600;

/// How much time the broker has for its answer, before the line is written with what is known.
const ANSWER: Duration = Duration::from_millis(300);

/// The longest reason that is shown.
const WIDEST_WHY: usize = 60;

/// The longest list of a holder's own keys and values.
const WIDEST_META: usize = 200;

type Question<'a> = Pin<Box<dyn Future<Output = Result<Position, Error>> + 'a>>;

/// Tells people of one wait. The drawn line is wiped out when this is dropped.
///
/// This decides nothing and delays nothing. The caller polls the request first, and then this, and
/// this writes only if there is room.
pub(crate) struct Waiting<'a> {
    locks: &'a LockManager,
    /// Where the broker is, whose store may not answer.
    place: &'a Place,
    name: ResourceName,
    mode: Mode,
    since: Instant,
    /// When the line has to be written next; `None` if never.
    due: Option<Instant>,
    /// The question that was not answered yet, and until when the line waits for the answer.
    question: Option<Question<'a>>,
    answer_by: Option<Instant>,
    /// The last answer, and when it came.
    known: Option<(Position, Instant)>,
    /// Why the state is not known, if the service that keeps the locks does not answer.
    outage: Option<String>,
    /// How many of the lines that stay were written.
    said: usize,
    is_drawn: bool,
    verbosity: Verbosity,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(
        locks: &'a LockManager,
        place: &'a Place,
        name: ResourceName,
        mode: Mode,
        verbosity: Verbosity,
    ) -> Self {
        let since = Instant::now();
        Self {
            locks,
            place,
            name,
            mode,
            since,
            due: (verbosity != Verbosity::Quiet).then(|| since + FIRST_DELAY),
            question: None,
            answer_by: None,
            known: None,
            outage: None,
            said: 0,
            is_drawn: false,
            verbosity,
        }
    }

    /// Notes that the wait is over, and that the wait for the lock of this name begins.
    pub(crate) fn begin_next(&mut self, name: ResourceName, mode: Mode) {
        *self = Self::new(self.locks, self.place, name, mode, self.verbosity);
    }

    /// When [`tick`](Self::tick) has to be called.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.answer_by.or(self.due)
    }

    /// Does everything that is due now.
    pub(crate) fn tick(&mut self) {
        let now = Instant::now();
        if self.answer_by.is_some_and(|by| by <= now) {
            self.show();
        } else if self.due.is_some_and(|due| due <= now) && self.answer_by.is_none() {
            // It may become possible to draw on the terminal at any time, when the shell brings
            // this process to the foreground.
            let is_terminal = terminal::size(&io::stderr()).is_some();
            let said = self.since.checked_add(Duration::from_secs(self.next_said()));
            self.due = if is_terminal { Some(now + REDRAWN) } else { said };
            if self.wants_to_show() {
                let ask = || -> Question<'a> { Box::pin(self.locks.position(self.name.clone())) };
                self.question.get_or_insert_with(ask);
                self.answer_by = Some(now + ANSWER);
            }
        }
    }

    /// Takes in the broker's answer. Ready if the answer has come.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(question) = &mut self.question else { return Poll::Pending };
        let Poll::Ready(answer) = question.as_mut().poll(context) else { return Poll::Pending };
        self.question = None;
        self.outage = answer.as_ref().err().and_then(outage);
        self.known = answer.ok().map(|known| (known, Instant::now())).or(self.known.take());
        if self.answer_by.is_some() {
            self.show();
        }
        Poll::Ready(())
    }

    /// Writes a text of a few lines that stays. The lines after the first are indented.
    pub(crate) fn tell(&mut self, told: &str) {
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        self.wipe();
        for (at, line) in told.lines().enumerate() {
            // Each line is written alone, because together they may be longer than a page.
            let before = if at == 0 { "navlock: " } else { "" };
            exit::mention_bytes(format!("{before}{line}\n").as_bytes());
        }
    }

    fn wants_to_show(&self) -> bool {
        is_drawable() || self.since.elapsed().as_secs() >= self.next_said()
    }

    /// When the next line that stays has to be written, in seconds from the beginning.
    fn next_said(&self) -> u64 {
        SAID.get(self.said).copied().unwrap_or_else(|| {
            let times = self.said - SAID.len() + 1;
            EVERY.saturating_mul(times as u64)
        })
    }

    fn show(&mut self) {
        self.answer_by = None;
        let time = self.since.elapsed();
        // What is older need not be so any more.
        let known = self.known.as_ref().filter(|(_, at)| at.elapsed() < REDRAWN + ANSWER);
        let known = known.map(|(known, _)| known);
        let suspended = self.locks.term().and_then(|term| term.suspended());
        let silent = suspended.map(|(silent, _)| (kind_at(self.place), silent));
        let columns = if is_drawable() { terminal::size(&io::stderr()) } else { None };
        // There has to be room for the holder.
        let widest = columns.map_or(WIDEST_NAME, |(columns, _)| WIDEST_NAME.min(columns / 4));
        let name = shortened(&format!("{:?}", self.name), widest);
        let said = sentence(&name, self.mode, time, known, silent, self.outage.as_deref());
        let line = match columns {
            // The last column stays free, because a terminal may go to the next line there.
            Some((columns, _)) => {
                self.is_drawn = true;
                format!("\r{}\x1b[K", clipped(&said, columns.saturating_sub(1)))
            }
            None if time.as_secs() >= self.next_said() => {
                self.wipe();
                while self.next_said() <= time.as_secs() {
                    self.said += 1;
                }
                format!("{said}\n")
            }
            None => return,
        };
        exit::mention_bytes(line.as_bytes());
    }

    fn wipe(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            exit::mention_bytes(b"\r\x1b[K");
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.wipe();
    }
}

/// Why a question was not answered, if the service that keeps the broker's locks is the cause. The
/// request will tell of an error of the broker itself.
fn outage(error: &Error) -> Option<String> {
    match error {
        Error::Unreachable(why) if why.kind() == UnreachableKind::Upstream => {
            Some(printable(why.message()))
        }
        _ => None,
    }
}

/// Whether a line can be drawn over the earlier one.
fn is_drawable() -> bool {
    terminal::is_in_front(&io::stderr()) && terminal::size(&io::stderr()).is_some()
}

/// `navlock: waiting for "db" (exclusive) 12s; held by make[4711] user@host for 3m (why); 2 ahead`,
/// as far as it is known.
fn sentence(
    name: &str,
    mode: Mode,
    time: Duration,
    known: Option<&Position>,
    silent: Option<(&str, Duration)>,
    outage: Option<&str>,
) -> String {
    let mut said = format!("navlock: waiting for {name} ({mode}) {}", elapsed(time));
    // Writing to a string does not fail.
    if let Some((store, silent)) = silent {
        // Everything else that is known may be old.
        let _ = write!(said, "; {store} has not answered for {}", elapsed(silent));
    } else if let Some(outage) = outage {
        let _ = write!(said, "; {outage}");
    }
    let Some(known) = known else { return said };
    if let Some(holders) = holders(known) {
        let _ = write!(said, "; held by {holders}");
    }
    if let Some(ahead @ 1..) = known.ahead {
        let _ = write!(said, "; {ahead} ahead");
    }
    said
}

/// The holders of a name, if there are any. The first one is shown in full.
pub(crate) fn holders(known: &Position) -> Option<String> {
    let mut said = holder(known.holder.as_ref()?);
    match known.holders.saturating_sub(1) {
        0 => {}
        1 => said.push_str(" and 1 other"),
        others => {
            let _ = write!(said, " and {others} others");
        }
    }
    Some(said)
}

/// The holder of a lock, for how long it holds it, and why.
fn holder(held: &Inspected) -> String {
    let agent = held.agent.as_deref();
    let mut said = process(agent, held.lock.client_id);
    if let Some(agent) = agent {
        let who = user_at_host(agent);
        if !who.is_empty() {
            said.push(' ');
            said.push_str(&clipped(&who, WIDEST_WHY));
        }
    }
    if let Some(age) = held.age {
        said.push_str(" for ");
        said.push_str(&elapsed(age));
    }
    if let Some(line) = agent.and_then(line_if_stopped) {
        let _ = write!(said, ", stopped ('{line}' has it go on)");
    }
    if let Some(agent) = agent.filter(|agent| !agent.why.is_empty()) {
        let _ = write!(said, " ({})", clipped(&printable(&agent.why), WIDEST_WHY));
    }
    if let Some(agent) = agent.filter(|agent| !agent.meta.is_empty()) {
        let _ = write!(said, ", {}", clipped(&meta(agent), WIDEST_META));
    }
    said
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use navlock::{AgentInfo, ClientId, LockInfo, Unreachable, UserAgent};

    use super::*;

    fn client() -> ClientId {
        UserAgent::new().lock_manager("").client_id()
    }

    fn name() -> ResourceName {
        "db".try_into().unwrap()
    }

    fn inspected(client: ClientId, command: &str, why: &str) -> Inspected {
        let mut agent = AgentInfo::default();
        agent.pid = 4711;
        agent.command = command.to_owned();
        agent.user = "user".to_owned();
        agent.host = "host".to_owned();
        agent.why = why.to_owned();
        let mut inspected = Inspected::new(LockInfo::new(name(), Mode::Exclusive, client));
        inspected.agent = Some(Arc::new(agent));
        inspected.age = Some(Duration::from_secs(180));
        inspected
    }

    fn said(known: Option<&Position>) -> String {
        sentence("\"db\"", Mode::Exclusive, Duration::from_secs(12), known, None, None)
    }

    #[test]
    fn a_wait_tells_of_the_service_behind_the_broker_and_leaves_the_broker_to_the_request() {
        let of = |kind, why| outage(&Unreachable::new(kind, why).into());
        assert_eq!(of(UnreachableKind::Upstream, "it is away\n"), Some("it is away\\n".to_owned()));
        // As of a broker whose socket is below a directory of this name.
        assert_eq!(of(UnreachableKind::Unavailable, "cannot reach the broker at /etcd/sock"), None);
        assert_eq!(outage(&Error::Closed), None);
    }

    #[test]
    fn a_wait_is_told_with_all_that_is_known() {
        let holder = inspected(client(), "/usr/bin/make -j4", "why");
        let known = Position::new(Some(holder), 1, Some(2));
        assert_eq!(
            said(Some(&known)),
            "navlock: waiting for \"db\" (exclusive) 12s; \
             held by make[4711] user@host for 3m (why); 2 ahead"
        );
        let mut holder = inspected(client(), "/usr/bin/make -j4", "why");
        let mut agent = AgentInfo::clone(holder.agent.as_ref().unwrap());
        agent.meta = vec![
            ("url".to_owned(), "http://localhost:3000".to_owned()),
            ("job".to_owned(), "\n7".to_owned()),
        ];
        holder.agent = Some(Arc::new(agent));
        assert_eq!(
            said(Some(&Position::new(Some(holder), 2, Some(1)))),
            "navlock: waiting for \"db\" (exclusive) 12s; held by make[4711] user@host for 3m (why), \
             url=http://localhost:3000, job=\\n7 and 1 other; 1 ahead"
        );
    }

    #[test]
    fn a_waiter_is_told_of_an_outage() {
        let (time, silent) = (Duration::from_secs(12), Some(("etcd", Duration::from_secs(4))));
        assert_eq!(
            sentence("\"db\"", Mode::Exclusive, time, None, silent, Some("cannot reach etcd")),
            "navlock: waiting for \"db\" (exclusive) 12s; etcd has not answered for 4s"
        );
        // Of what has nothing that could be lost.
        assert_eq!(
            sentence("\"db\"", Mode::Exclusive, time, None, None, Some("cannot reach etcd")),
            "navlock: waiting for \"db\" (exclusive) 12s; cannot reach etcd"
        );
    }

    #[test]
    fn unknown_details_of_a_holder_are_not_told() {
        let bare = "navlock: waiting for \"db\" (exclusive) 12s";
        assert_eq!(said(None), bare);
        assert_eq!(said(Some(&Position::default())), bare);
        let theirs = client();
        let held = || Some(Inspected::new(LockInfo::new(name(), Mode::Shared, theirs)));
        let known = Position::new(held(), 1, Some(0));
        assert_eq!(said(Some(&known)), format!("{bare}; held by client {theirs}"));
        let known = Position::new(held(), 4, None);
        let others = format!("{bare}; held by client {theirs} and 3 others");
        assert_eq!(said(Some(&known)), others);
    }

    #[test]
    fn descriptions_by_other_agents_are_shown_and_not_obeyed() {
        let holder = inspected(client(), "\u{1b}[2J", &format!("\r{}", "x".repeat(100)));
        let told = said(Some(&Position::new(Some(holder), 1, None)));
        assert!(told.contains(r"held by \u{1b}[2J[4711] user@host for 3m (\rxx"), "{told}");
        assert!(told.ends_with("xx…)"), "{told}");
    }
}
