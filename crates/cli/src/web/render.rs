//! The state as JSON.
//!
//! Only the beginning of texts of others is shown, because they may be very long: a name of a
//! mebibyte would be sent anew whenever something happens to it.

use std::sync::Arc;

use navlock::{
    AgentInfo, ClientId, ResourceName,
    host::clip_chars,
    look::{Agent, Client, Count, Deadlock, Entry, LockName, Queue, Root, Why},
};
use navlock_broker::MAX_META;

use super::clock::Clock;
use crate::{
    json::{IfKnown, Object},
    picture::past::{End, Past, Span},
    remedy::{Remedy, Surroundings},
};

/// How many UTF-16 code units of a name are shown, and how many characters of other texts.
const LONGEST: usize = 256;

/// How many holders and how many requests of a name are shown.
const MOST_ENTRIES: usize = 500;

/// How many lines of the tree are shown, and of each root.
const MOST_ROWS: usize = 600;
const MOST_ROWS_OF_ROOT: usize = 150;

/// How many agents that hold others up are checked for stopped processes.
const MOST_WATCHED: usize = 64;

/// How many deadlocks are shown, and how many members of each.
pub(super) const MOST_DEADLOCKS: usize = 50;
const MOST_MEMBERS: usize = 100;

pub(super) fn array(parts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut array = String::from("[");
    for part in parts {
        if array.len() > 1 {
            array.push(',');
        }
        array.push_str(part.as_ref());
    }
    array.push(']');
    array
}

/// The state of a name, by the number that the name has on the page.
pub(super) fn queue(key: u64, name: &LockName, queue: &Queue, clock: Clock) -> String {
    let entries = |entries: &[Entry]| {
        array(entries.iter().take(MOST_ENTRIES).map(|one| entry(one, clock).to_string()))
    };
    with_name(Object::default().number("key", key), name)
        .json("held", entries(&queue.held))
        .json("pending", entries(&queue.pending))
        .json("owned", entries(&queue.owned))
        .number("heldCount", queue.held.len() as u64)
        .number("pendingCount", queue.pending.len() as u64)
        .to_string()
}

/// A lock or a request.
fn entry(entry: &Entry, clock: Clock) -> Object {
    Object::default()
        .string("id", &entry.id.to_string())
        .string("agent", &entry.id.client_id.to_string())
        .string("mode", entry.mode.as_str())
        .number("since", clock.at(entry.since))
        .if_known(entry.why.as_ref(), |it, why| it.string("why", why))
        .found(entry)
}

/// The past holders of a name and the present ones.
pub(super) fn spans(past: &Past, name: &LockName, clock: Clock) -> String {
    let spans = past.spans(name);
    Object::default()
        .number("began", clock.at(past.began))
        .number("now", clock.now())
        .json("spans", array(spans.iter().map(|one| span(one, clock).to_string())))
        .to_string()
}

fn span(Span { entry, info: who, requested, end }: &Span, clock: Clock) -> Object {
    let said = |it: Object, key, of: &Arc<AgentInfo>| it.object(key, &info(Object::default(), of));
    Object::default()
        .string("id", &entry.id.to_string())
        .string("mode", entry.mode.as_str())
        .number("from", clock.at(entry.since))
        .if_known(*requested, |it, requested| it.number("requested", clock.at(requested)))
        .if_known(end.as_ref(), |it, End { at, how, by }| {
            let it = it.number("to", clock.at(*at)).string("how", how);
            it.if_known(by.as_ref(), |it, by| said(it, "by", by))
        })
        .if_known(who.as_ref(), |it, who| said(it, "who", who))
}

fn with_name(object: Object, name: &LockName) -> Object {
    let object = object.string("bucket", &beginning(&name.bucket));
    if name.name.as_bytes().len() <= LONGEST {
        return object.name("name", &name.name);
    }
    let units: Vec<u16> = name.name.utf16().take(LONGEST).collect();
    // The beginning of a name is a name as well.
    let begins = ResourceName::from_utf16(&units).unwrap_or_else(|_| name.name.clone());
    let length = name.name.utf16().count();
    let object = object.name("name", &begins);
    if length > LONGEST { object.number("nameLength", length as u64) } else { object }
}

fn beginning(text: &str) -> String {
    let shown = clip_chars(text, LONGEST);
    if shown.len() == text.len() { text.to_owned() } else { format!("{shown}…") }
}

/// What an agent says of itself, as far as it is known.
pub(super) fn info(mut object: Object, info: &AgentInfo) -> Object {
    object = object.process(info, beginning);
    if !info.meta.is_empty() {
        let meta = info.meta.iter().take(MAX_META).map(|(key, value)| {
            let pair = [beginning(key), beginning(value)].map(serde_json::Value::from);
            serde_json::Value::from(pair.to_vec()).to_string()
        });
        object = object.json("meta", array(meta));
    }
    object
}

pub(super) fn agent(id: ClientId, agent: &Agent, count: Count, clock: Clock) -> String {
    let Count { held, pending, owned, .. } = count;
    let object = Object::default()
        .string("id", &id.to_string())
        .string("bucket", &beginning(&agent.bucket))
        .if_known(agent.client, |it, client| it.number("client", client))
        .if_known(agent.silence, |it, silence| {
            let silent = Object::default().number("since", clock.at(silence.since));
            it.object("silent", &silent.number("ends", clock.at(silence.ends)))
        })
        .number("held", held)
        .number("pending", pending)
        .number("owned", owned);
    info(object, &agent.info).to_string()
}

pub(super) fn client(number: u64, client: &Client, clock: Clock) -> String {
    let object = Object::default().number("id", number).number("pid", client.pid.into());
    object.string("state", client.state.word()).number("since", clock.at(client.since)).to_string()
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Held => "held",
        Why::Ahead => "ahead",
        Why::Inside => "inside",
        Why::SameAgent => "same-agent",
        Why::InsideAgent => "inside-agent",
        _ => "unknown",
    }
}

/// The tree of waiters.
pub(super) fn tree(
    roots: &[Root<'_>],
    key: impl Fn(&LockName) -> u64,
    seen: &Surroundings<'_>,
    clock: Clock,
) -> String {
    let mut room = MOST_ROWS;
    array(roots.iter().enumerate().map(|(at, root)| {
        let shown = root.rows.len().min(MOST_ROWS_OF_ROOT).min(room);
        room -= shown;
        let rows = root.rows[..shown].iter().map(|row| {
            let is_watched = row.depth == 0 && at < MOST_WATCHED;
            let stopped = is_watched.then(|| seen.stopped(row.entry.id.client_id));
            let stopped = stopped.filter(|pids| !pids.is_empty());
            Object::default()
                .number("depth", row.depth as u64)
                .number("below", row.below as u64)
                .number("key", key(row.name))
                .boolean("held", row.is_held)
                .if_known(row.why, |it, of| it.string("why", why(of)))
                .if_known(stopped, |it, pids| {
                    it.json("stopped", array(pids.iter().map(u32::to_string)))
                })
                .object("entry", &entry(row.entry, clock))
                .to_string()
        });
        Object::default()
            .number("blocks", root.blocks as u64)
            .boolean("cycle", root.is_cycle)
            .number("more", (root.rows.len() - shown) as u64)
            .json("rows", array(rows))
            .to_string()
    }))
}

/// The deadlocks, and the remedies for each.
pub(super) fn deadlocks<'a>(
    all: impl Iterator<Item = &'a Deadlock>,
    key: impl Fn(&LockName) -> u64,
    seen: &Surroundings<'_>,
    clock: Clock,
) -> String {
    array(all.map(|deadlock| {
        let remedies: Vec<_> = seen.remedies_of(deadlock).iter().map(Remedy::json).collect();
        let members = deadlock.members.iter().take(MOST_MEMBERS).map(|member| {
            Object::default()
                .number("key", key(&member.name))
                .boolean("held", member.is_held)
                .string("why", why(member.why))
                .object("entry", &entry(&member.entry, clock))
                .to_string()
        });
        Object::default()
            .boolean("certain", deadlock.is_certain)
            .string("givesWay", &deadlock.gives_way().to_string())
            .number("more", deadlock.members.len().saturating_sub(MOST_MEMBERS) as u64)
            .json("members", array(members))
            .objects("remedies", &remedies)
            .to_string()
    }))
}
