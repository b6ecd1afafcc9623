//! What ends a jam: how those who hold it up are, and lines to paste.

use std::{
    collections::BTreeSet,
    path::{self, Path},
    time::Instant,
};

use navlock::{
    AgentInfo, ClientId, Place, ResourceName,
    look::{Agent, Client, ClientState, Deadlock, Entry, LockName, Overview, Silence},
};
use navlock_platform::{
    process::{self, Seen},
    shell::{self, line_to_continue, line_to_end},
};

use crate::{
    json::Object,
    text::{clipped, meta, printable, program, user_at_host},
    time::elapsed,
};

/// A name that is longer than this stands in no line to paste.
const LONGEST: usize = 200;

/// The longest text of others in a sentence.
const WIDEST: usize = 60;

/// Of a deadlock no more ends are offered: one is enough.
const MOST_ENDS: usize = 20;

/// Something that can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remedy {
    /// What kind of thing it is, in one word.
    pub(crate) kind: &'static str,
    /// What it does.
    pub(crate) does: String,
    /// The line to paste.
    pub(crate) line: String,
    /// The machine on which to paste it, if it is not this one.
    pub(crate) host: Option<String>,
}

/// Where we are, which decides what can be done from here.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    place: Place,
    /// What a line begins with that is to reach the same broker, if that can be written down.
    navlock: Option<String>,
    host: String,
    /// The PID namespace in which we see processes, if there is such a thing.
    namespace: Option<u64>,
    process: fn(u32) -> Option<Seen>,
}

/// Those who hold and wait, as they are seen from here.
pub(crate) struct Surroundings<'a> {
    overview: &'a Overview,
    here: &'a Here,
    /// Whether the numbers of processes of the broker's clients are those that we see.
    counts_as_we_do: bool,
}

impl Remedy {
    /// For programs.
    pub(crate) fn json(&self) -> Object {
        let object = Object::default()
            .string("kind", self.kind)
            .string("does", &self.does)
            .string("line", &self.line);
        self.host.iter().fold(object, |object, host| object.string("host", host))
    }
}

impl Here {
    /// With the broker of this place, for a terminal in which it is the usual one, or not.
    pub(crate) fn new(place: &Place) -> Self {
        let usual = Place::from_env().is_ok_and(|usual| usual.socket() == place.socket());
        let anywhere = Self::anywhere(place);
        let navlock = if usual { Some("navlock".to_owned()) } else { anywhere.navlock };
        Self { navlock, ..anywhere }
    }

    /// The same for who reads it anywhere, where another one may be the usual one.
    pub(crate) fn anywhere(place: &Place) -> Self {
        let socket = path::absolute(place.socket()).ok();
        let socket = socket.as_deref().and_then(Path::to_str).and_then(quoted);
        let navlock = socket.map(|socket| format!("navlock --socket {socket}"));
        let host = navlock_broker::this_process().host;
        let namespace = navlock_broker::pid_namespace();
        Self { place: place.clone(), navlock, host, namespace, process: process::seen }
    }

    /// A machine that is made up: it is called `here`, and this is how its processes are.
    #[cfg(test)]
    pub(crate) fn made_up(process: fn(u32) -> Option<Seen>) -> Self {
        let (navlock, host) = ("navlock".to_owned(), "here".to_owned());
        let (place, navlock) = (Place::at("/nowhere/sock"), Some(navlock));
        Self { place, navlock, host, namespace: Some(1), process }
    }

    /// Those who hold and wait, with the PID namespace of the broker that has told of them, if that is known.
    pub(crate) fn see<'a>(
        &'a self,
        overview: &'a Overview,
        namespace: Option<u64>,
    ) -> Surroundings<'a> {
        Surroundings { overview, here: self, counts_as_we_do: self.counts_as(namespace) }
    }

    /// Whether the numbers of processes that are seen in this PID namespace mean the same here, as far as
    /// that is known.
    pub(crate) fn counts_as(&self, namespace: Option<u64>) -> bool {
        namespace.is_none() || self.namespace.is_none() || namespace == self.namespace
    }
}

impl<'a> Surroundings<'a> {
    fn agent(&self, id: ClientId) -> Option<&'a Agent> {
        self.overview.agents.get(&id)
    }

    fn client(&self, agent: &Agent) -> Option<&'a Client> {
        self.overview.clients.get(&agent.client?)
    }

    /// The machine that an agent is on, if it is not this one.
    fn elsewhere(&self, agent: &'a Agent) -> Option<&'a str> {
        (agent.client.is_none() && !self.is_said_here(agent)).then_some(&*agent.info.host)
    }

    /// Whether it says to be on this machine. Who is connected and says otherwise is in a container, where
    /// processes have other numbers.
    fn is_said_here(&self, agent: &Agent) -> bool {
        let host = agent.info.host.as_str();
        host.is_empty() || host == self.here.host
    }

    /// Who it is, as people call it: `make[4711]`, with user and host if it is elsewhere.
    pub(crate) fn who(&self, id: ClientId) -> String {
        let Some(agent) = self.agent(id) else { return format!("client {id}") };
        let who = who(&agent.info, id);
        match self.elsewhere(agent) {
            Some(_) => format!("{who} {}", clipped(&user_at_host(&agent.info), WIDEST)),
            None => who,
        }
    }

    /// What it is for, and what else it says of itself, in brackets after a space; else nothing.
    pub(crate) fn why(&self, id: ClientId) -> String {
        match self.agent(id).map(|agent| purpose(&agent.info)) {
            Some(why) if !why.is_empty() => format!(" ({})", clipped(&why, WIDEST)),
            _ => String::new(),
        }
    }

    /// What is known of it, for programs.
    pub(crate) fn describe(&self, id: ClientId, object: Object) -> Object {
        match self.agent(id) {
            Some(agent) => object.agent(&agent.info),
            None => object,
        }
    }

    /// The processes of this machine that hold or wait for what this agent does: the one that is
    /// connected, and its command.
    fn processes(&self, agent: &Agent) -> Vec<u32> {
        let connected = self.client(agent).map(|client| client.pid);
        let said = self.is_said_here(agent).then_some(agent.info.pid);
        let mut all: Vec<_> = connected.into_iter().chain(said).collect();
        all.retain(|pid| *pid != 0);
        all.dedup();
        all
    }

    /// Those of its processes that are stopped, so that nothing goes on until they are continued.
    pub(crate) fn stopped(&self, id: ClientId) -> Vec<u32> {
        let agent = self.agent(id).filter(|agent| self.elsewhere(agent).is_none());
        let agent = agent.filter(|agent| agent.client.is_none() || self.counts_as_we_do);
        let mut all = agent.map(|agent| self.processes(agent)).unwrap_or_default();
        all.retain(|pid| (self.here.process)(*pid).is_some_and(|process| process.is_stopped));
        all
    }

    /// That its machine has not been heard of, if it is another one and should have been.
    pub(crate) fn silence(&self, id: ClientId) -> Option<Silence> {
        self.agent(id)?.silence
    }

    /// The same for people: `not heard of for 7s, ends in 3s`.
    pub(crate) fn silent(&self, id: ClientId, now: Instant) -> Option<String> {
        let Silence { since, ends, .. } = self.silence(id)?;
        let silent = elapsed(now.saturating_duration_since(since));
        Some(format!("not heard of for {silent}, {}", ends_in(ends, now)))
    }

    /// The process whose end is the end of what the agent has: the command, if it is known to be the
    /// one of the process that is connected; whatever says so of itself need not be right.
    fn to_end(&self, agent: &Agent) -> Option<u32> {
        let said = Some(agent.info.pid).filter(|pid| *pid != 0);
        let Some(client) = self.client(agent) else { return said };
        if !self.counts_as_we_do {
            return None;
        }
        let is_believed = |said: &u32| self.is_said_here(agent) && self.is_command(*said, client);
        said.filter(is_believed).or(Some(client.pid).filter(|pid| *pid != 0))
    }

    /// Whether a number can be that of the command of who is connected.
    fn is_command(&self, said: u32, client: &Client) -> bool {
        let process = self.here.process;
        if process(std::process::id()).is_none() {
            // There is no telling.
            return true;
        }
        // Of who counts processes otherwise than the broker does, that one knows no number.
        client.pid != 0
            && (client.state == ClientState::Orphaned
                || process(said).is_some_and(|process| process.parent == client.pid))
    }

    /// What can be done about whoever holds or waits for this, the mildest first.
    pub(crate) fn remedies(&self, name: &LockName, entry: &Entry, is_held: bool) -> Vec<Remedy> {
        let id = entry.id.client_id;
        let agent = self.agent(id);
        let host = agent.and_then(|agent| self.elsewhere(agent));
        let mut all = Vec::new();
        let mut add = |kind, does: String, line: String, host: Option<&str>| {
            all.push(Remedy { kind, does, line, host: host.map(str::to_owned) });
        };
        let stopped = self.stopped(id);
        if !stopped.is_empty() {
            add("continue", "has it go on".to_owned(), line_to_continue(&stopped), None);
        }
        let socket = self.here.place.holds().join(id.to_string());
        let navlock = self.here.navlock.as_deref();
        if let Some(navlock) = navlock.filter(|_| socket.exists()) {
            let line = format!("{navlock} release {id}");
            add("release", "gives back what this hold has".to_owned(), line, None);
        } else if let Some(pid) = agent.and_then(|agent| self.to_end(agent)) {
            // Of who stands still, whatever else it is sent is heard when it goes on.
            let line = line_to_end(pid, !stopped.is_empty());
            let does = host.map_or_else(
                || "ends it".to_owned(),
                |host| format!("ends it, on {}", clipped(&printable(host), WIDEST)),
            );
            add("end", does, line, host);
        }
        let bucket = match &*name.bucket {
            "default" => Some(String::new()),
            bucket => quoted(bucket).map(|bucket| format!(" --bucket {bucket}")),
        };
        if let (Some(bucket), Some(quoted)) = (bucket, quoted_name(&name.name)) {
            if let Some(host) = host {
                let host = clipped(&printable(host), WIDEST);
                let ends = match self.silence(id) {
                    Some(Silence { ends, .. }) => {
                        format!(
                            "{}, if {host} is not heard of again",
                            ends_in(ends, Instant::now())
                        )
                    }
                    None => "ends by itself when its lease has run out".to_owned(),
                };
                let does =
                    format!("removes it from etcd at once, if {host} is gone: otherwise it {ends}");
                add("evict", does, format!("navlock evict{bucket} {quoted} {id}"), None);
            }
            if let Some(navlock) = navlock.filter(|_| is_held) {
                let line = format!("{navlock} run{bucket} --steal {quoted} {}", shell::NOTHING);
                let does =
                    "takes the lock from all who hold it, for the next in the queue".to_owned();
                add("steal", does, line, None);
            }
        }
        all
    }

    /// What would break a deadlock: the end of any of those who are in it.
    pub(crate) fn remedies_of(&self, deadlock: &Deadlock) -> Vec<Remedy> {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for member in deadlock.members.iter().filter(|member| !member.is_held) {
            if !seen.insert(member.entry.id.client_id) {
                continue;
            }
            let who = self.who(member.entry.id.client_id);
            let of_it = self.remedies(&member.name, &member.entry, false);
            // To have it go on is no end of it: it waits.
            let end = of_it.into_iter().find(|remedy| remedy.kind != "continue");
            // Two who are one process end together.
            let end = end.filter(|end| all.iter().all(|known: &Remedy| known.line != end.line));
            all.extend(end.map(|remedy| {
                let does = remedy.does.replacen(" it", &format!(" {who}"), 1);
                Remedy { does, ..remedy }
            }));
            if all.len() == MOST_ENDS {
                break;
            }
        }
        all
    }
}

/// What an agent wants its locks for, and what else it says.
pub(crate) fn purpose(agent: &AgentInfo) -> String {
    let words = [printable(&agent.why), meta(agent)];
    words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
}

/// `ends in 3s`.
fn ends_in(ends: Instant, now: Instant) -> String {
    match elapsed(ends.saturating_duration_since(now)) {
        left if left == "0s" => "ends in a moment".to_owned(),
        left => format!("ends in {left}"),
    }
}

/// `make[4711]`, or what else is known of it.
pub(crate) fn who(info: &AgentInfo, id: ClientId) -> String {
    match (program(&info.command).as_str(), info.pid) {
        ("", 0) => format!("client {id}"),
        ("", pid) => format!("process {pid}"),
        (program, pid) => format!("{program}[{pid}]"),
    }
}

fn quoted_name(name: &ResourceName) -> Option<String> {
    // FAST: what is too long is not looked at.
    name.as_str().filter(|text| text.len() <= LONGEST).and_then(quoted)
}

/// A text as one word of a shell; `None` if it would be misread by people or is too long for them.
fn quoted(text: &str) -> Option<String> {
    if text.len() > LONGEST || text.starts_with('-') || printable(text) != text {
        return None;
    }
    shell::quoted(text)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::time::Duration;

    use navlock::{
        Mode,
        look::{Change, Event, LockId},
    };

    use super::*;

    #[test]
    fn a_word_to_paste_is_what_it_was() {
        for (text, word) in [
            ("db", Some("db")),
            ("a b", Some("'a b'")),
            ("", Some("''")),
            ("it's; rm -r ~ $(x) `y`", Some(r"'it'\''s; rm -r ~ $(x) `y`'")),
            ("~", Some("'~'")),
            ("日本", Some("日本")),
            ("a\u{3000}b", None),
            ("a\nb", None),
            ("\u{1b}[2J", None),
            ("a\u{202e}b", None),
            ("-n", None),
        ] {
            assert_eq!(quoted(text).as_deref(), word, "{text:?}");
        }
        assert_eq!(quoted(&"x".repeat(1 << 20)), None);
    }

    /// Somebody who holds a lock, on this machine (then with a connection) or on another one.
    fn holder(host: &str, bucket: &str, is_here: bool) -> (Overview, LockName, Entry) {
        let (name, now) = (LockName::new(bucket, "it's".try_into().unwrap()), Instant::now());
        let id = LockId { client_id: ClientId::from_bytes([7; 16]), serial: 1 };
        let mut info = AgentInfo::default();
        (info.pid, info.command, info.host) = (4711, "make".to_owned(), host.to_owned());
        let details = Agent::new(bucket.into(), info.into(), is_here.then_some(1));
        let entry = Entry::new(id, Mode::Exclusive);
        let mut overview = Overview::default();
        let client = Client::new(4700, ClientState::Connected);
        for change in [
            Change::ClientCame { client: 1, details: client },
            Change::AgentCame { agent: id.client_id, details },
            Change::Granted { name: name.clone(), entry: entry.clone() },
        ] {
            overview.apply(&Event { at: now, change });
        }
        (overview, name, entry)
    }

    fn lines(here: &Here, (overview, name, entry): &(Overview, LockName, Entry)) -> Vec<String> {
        let all = here.see(overview, Some(1)).remedies(name, entry, true).into_iter();
        all.map(|remedy| match remedy.host {
            Some(host) => format!("{}: {}", host, remedy.line),
            None => remedy.line,
        })
        .collect()
    }

    #[test]
    fn what_another_machine_holds_is_ended_there_or_evicted() {
        let here = Here::made_up(|_| None);
        let there = holder("there", "b c", false);
        let id = there.2.id.client_id;
        assert_eq!(here.see(&there.0, None).who(id), "make[4711] @there");
        assert_eq!(
            lines(&here, &there),
            [
                "there: kill 4711".to_owned(),
                format!(r"navlock evict --bucket 'b c' 'it'\''s' {id}"),
                r"navlock run --bucket 'b c' --steal 'it'\''s' true".to_owned(),
            ]
        );
        // By another broker of this machine.
        let steal = r"navlock run --steal 'it'\''s' true";
        assert_eq!(lines(&here, &holder("here", "default", false)), ["kill 4711", steal]);
    }

    #[test]
    fn how_long_a_machine_has_left_that_is_not_heard_of_is_told() {
        let here = Here::made_up(|_| None);
        let (now, seconds) = (Instant::now(), Duration::from_secs);
        let (mut overview, name, entry) = holder("there", "default", false);
        let agent = entry.id.client_id;
        assert_eq!(here.see(&overview, None).silent(agent, now), None);
        // A little more than 12 s, as some time passes.
        let silence = Silence::new(
            now.checked_sub(seconds(48)).unwrap(),
            now + Duration::from_millis(12_900),
        );
        overview.apply(&Event { at: now, change: Change::AgentSilent { agent, silence } });
        let seen = here.see(&overview, None);
        let told = |now| seen.silent(agent, now).unwrap();
        assert_eq!(told(now), "not heard of for 48s, ends in 12s");
        assert_eq!(told(now + seconds(20)), "not heard of for 1m08s, ends in a moment");
        let remedies = seen.remedies(&name, &entry, true);
        let evict = remedies.iter().find(|remedy| remedy.kind == "evict").unwrap();
        let does = "removes it from etcd at once, if there is gone: otherwise it ends in 12s, if there \
                    is not heard of again";
        assert_eq!(evict.does, does);
    }

    #[test]
    fn a_number_is_offered_to_kill_if_it_is_the_command_of_who_is_connected() {
        let steal = r"navlock run --steal 'it'\''s' true";
        for (process, line) in [
            ((|_| Some(Seen { is_stopped: false, parent: 4700 })) as fn(u32) -> _, "kill 4711"),
            (|_| Some(Seen { is_stopped: false, parent: 1 }), "kill 4700"),
            // Where there is no telling, it is believed.
            (|_| None, "kill 4711"),
        ] {
            let here = Here::made_up(process);
            assert_eq!(lines(&here, &holder("here", "default", true)), [line, steal]);
        }
        // Who is connected and on a machine of another name counts them otherwise.
        let there = Here::made_up(|_| Some(Seen { is_stopped: true, parent: 4700 }));
        let connected = ["kill -CONT 4700", "kill -KILL 4700", steal];
        assert_eq!(lines(&there, &holder("container", "default", true)), connected);
        // So does who has no number for the broker.
        let mut numberless = holder("here", "default", true);
        numberless.0.clients.get_mut(&1).unwrap().pid = 0;
        for process in [
            |_| Some(Seen { is_stopped: false, parent: 0 }),
            |pid| Some(Seen { is_stopped: false, parent: pid }),
        ] as [fn(u32) -> _; 2]
        {
            assert_eq!(lines(&Here::made_up(process), &numberless), [steal]);
        }
        let stopped = Here::made_up(|pid| Some(Seen { is_stopped: pid == 4700, parent: 4700 }));
        assert_eq!(
            lines(&stopped, &holder("here", "default", true)),
            ["kill -CONT 4700", "kill -KILL 4711", steal]
        );
    }

    #[test]
    fn what_a_broker_of_another_pid_namespace_counts_is_nobody_s_number_here() {
        let here = Here::made_up(|_| Some(Seen { is_stopped: true, parent: 4700 }));
        let (overview, name, entry) = holder("here", "default", true);
        for (namespace, kinds) in [
            (Some(1), &["continue", "end", "steal"][..]),
            (None, &["continue", "end", "steal"]),
            (Some(2), &["steal"]),
        ] {
            let seen = here.see(&overview, namespace);
            let all = seen.remedies(&name, &entry, true);
            assert_eq!(all.iter().map(|remedy| remedy.kind).collect::<Vec<_>>(), kinds);
        }
        // On another machine it is for whoever is there.
        let (overview, name, entry) = holder("there", "default", false);
        assert_eq!(here.see(&overview, Some(2)).remedies(&name, &entry, true)[0].kind, "end");
    }

    #[test]
    fn a_line_that_is_read_anywhere_says_where_the_broker_is_and_else_there_is_none() {
        let held = holder("here", "default", true);
        let line = |socket: &str| {
            let navlock = Here::anywhere(&Place::at(socket)).navlock;
            lines(&Here { navlock, ..Here::made_up(|_| None) }, &held)
        };
        let steal = r"navlock --socket '/run/a b/sock' run --steal 'it'\''s' true";
        assert_eq!(line("/run/a b/sock"), ["kill 4711", steal]);
        assert_eq!(line("/run/a\nb/sock"), ["kill 4711"]);
    }

    #[test]
    fn a_process_is_known_by_its_state_and_its_parent() {
        let us = process::seen(std::process::id());
        let parent = std::os::unix::process::parent_id();
        if Path::new("/proc/self/stat").exists() {
            assert_eq!(us, Some(Seen { is_stopped: false, parent }));
        }
        assert_eq!(process::seen(u32::MAX), None);
    }
}
