//! Tests of which lines are offered, and for whom.

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

/// An agent that holds a lock. If `is_here`, the agent has a connection to this machine's broker.
fn holder(host: &str, bucket: &str, is_here: bool) -> (Overview, LockName, Entry) {
    let (name, now) = (LockName::new(bucket, "it's".try_into().unwrap()), Instant::now());
    let id = LockId { client_id: ClientId::from_bytes([7; 16]), serial: 1 };
    let mut info = AgentInfo::default();
    (info.pid, info.command, info.host) = (4711, "make".to_owned(), host.to_owned());
    info.user = if host == "here" { "bea" } else { "" }.to_owned();
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
fn a_holder_on_another_machine_is_ended_there_or_evicted() {
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
    // The holder uses another broker of this machine.
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
    // The time left is a little more than 12 s, because some time passes in the test.
    let silence =
        Silence::new(now.checked_sub(seconds(48)).unwrap(), now + Duration::from_millis(12_900));
    overview.apply(&Event { at: now, change: Change::AgentSilent { agent, silence } });
    let seen = here.see(&overview, None);
    let told = |now| seen.silent(agent, now).unwrap();
    assert_eq!(told(now), "not heard of for 48s, ends in 12s");
    assert_eq!(told(now + seconds(20)), "not heard of for 1m08s, ends in a moment");
    let remedies = seen.remedies(&name, &entry, true);
    let evict = remedies.iter().find(|remedy| remedy.kind == "evict").unwrap();
    let does = "removes it at once, if there is gone: otherwise it ends in 12s, if there \
                is not heard of again";
    assert_eq!(evict.does, does);
}

#[test]
fn a_number_is_offered_to_kill_if_it_is_the_command_of_who_is_connected() {
    let steal = r"navlock run --steal 'it'\''s' true";
    for (process, line) in [
        ((|_| Some(Seen { is_stopped: false, parent: 4700 })) as fn(u32) -> _, "kill 4711"),
        (|_| Some(Seen { is_stopped: false, parent: 1 }), "kill 4700"),
        // If nothing is known of the process, the number that the agent has given is used.
        (|_| None, "kill 4711"),
    ] {
        let here = Here::made_up(process);
        assert_eq!(lines(&here, &holder("here", "default", true)), [line, steal]);
    }
    // An agent that is connected but names another machine counts processes in another way.
    let there = Here::made_up(|_| Some(Seen { is_stopped: true, parent: 4700 }));
    let connected = ["kill -CONT 4700", "kill -KILL 4700", steal];
    assert_eq!(lines(&there, &holder("container", "default", true)), connected);
    // An agent whose client's number the broker does not know counts processes in another way too.
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
fn a_process_number_of_another_pid_namespace_is_not_used_here() {
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
    // If the holder is on another machine, the line is for somebody on that machine.
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
    let us = seen(std::process::id());
    let parent = std::os::unix::process::parent_id();
    if Path::new("/proc/self/stat").exists() {
        assert_eq!(us, Some(Seen { is_stopped: false, parent }));
    }
    assert_eq!(seen(u32::MAX), None);
}

#[test]
fn of_another_users_lock_one_sees_whose_it_is_and_only_root_is_told_how_to_end_it() {
    let mut here = Here::made_up(|_| None);
    here.place = Place::of_system();
    let theirs = holder("here", "default", false);
    let id = theirs.2.id.client_id;
    assert_eq!(here.see(&theirs.0, Some(1)).who(id), "make[4711] of bea");
    assert_eq!(lines(&here, &theirs), [""; 0]);
    here.is_root = true;
    assert_eq!(lines(&here, &theirs), ["kill 4711", r"navlock run --steal 'it'\''s' true"]);
    (here.is_root, here.user) = (false, "bea".to_owned());
    assert_eq!(here.see(&theirs.0, Some(1)).who(id), "make[4711]");
    assert_eq!(lines(&here, &theirs).len(), 2);
}
