//! The row and the object of an entry.

use std::{sync::Arc, time::Duration};

use navlock::{AgentInfo, FencingToken, LockInfo, Mode, UserAgent};

use super::{super::rows::table, *};

fn inspected(name: &str) -> Inspected {
    let client = UserAgent::new().lock_manager("").client_id();
    Inspected::new(LockInfo::new(name.try_into().unwrap(), Mode::Exclusive, client))
}

#[test]
fn positions_are_counted_for_each_name() {
    let pending = vec![inspected("b"), inspected("a"), inspected("b")];
    let inspection = Inspection::new(vec![inspected("b")], pending);
    let all = |name: Option<&str>| {
        let name = name.map(|name| name.try_into().unwrap());
        let args = QueryArgs { name, ..QueryArgs::default() };
        let entries = Entry::all(&inspection, &args, false);
        let told = entries.iter().map(|entry| {
            let name = entry.inspected.lock.name.to_string();
            (name, entry.state, entry.position)
        });
        told.collect::<Vec<_>>()
    };
    let expected = [
        ("a".to_owned(), "pending", Some(1)),
        ("b".to_owned(), "held", None),
        ("b".to_owned(), "pending", Some(1)),
        ("b".to_owned(), "pending", Some(2)),
    ];
    assert_eq!(all(None), expected);
    assert_eq!(all(Some("b")), expected[1..]);
}

#[test]
fn no_position_is_told_where_not_all_is_shown() {
    let mut inspection = Inspection::new(Vec::new(), vec![inspected("a"), inspected("a")]);
    inspection.left_out = 1;
    let entries = Entry::all(&inspection, &QueryArgs::default(), false);
    assert!(entries.iter().all(|entry| entry.position.is_none()));
    assert_eq!(entries[0].position(), None);
}

#[test]
fn json_has_what_is_known_and_nothing_else() {
    let mut inspected = inspected("db");
    let id = inspected.lock.client_id;
    let entry = |inspected: &Inspected| Entry::new("held", inspected, None).json().to_string();
    let base = format!(r#"{{"state":"held","name":"db","mode":"exclusive","clientId":"{id}"}}"#);
    assert_eq!(entry(&inspected), base);
    let mut agent = AgentInfo::default();
    agent.pid = 7;
    agent.command = "sh\n".to_owned();
    inspected.agent = Some(Arc::new(agent));
    inspected.age = Some(Duration::from_millis(1500));
    inspected.fencing_token = Some(FencingToken::new(u64::MAX));
    let more = r#","pid":7,"command":"sh\n","ageMs":1500,"fencingToken":"18446744073709551615"}"#;
    assert_eq!(entry(&inspected), base.replace('}', more));
}

#[test]
fn names_that_are_owned_are_shown_to_who_wants_to_know_more() {
    let mut inspection = Inspection::new(vec![inspected("b")], Vec::new());
    let client = inspection.held[0].lock.client_id;
    let lock = LockInfo::new("a".try_into().unwrap(), Mode::Shared, client);
    let mut owned = Inspected::new(lock);
    owned.taken = 7;
    inspection.owned.push(owned);
    assert_eq!(Entry::all(&inspection, &QueryArgs::default(), false).len(), 1);
    let all = Entry::all(&inspection, &QueryArgs::default(), true);
    assert_eq!(all.iter().map(|entry| entry.state).collect::<Vec<_>>(), ["owned", "held"]);
    assert_eq!(all[0].position().as_deref(), Some("taken 7 times"));
    let json = format!(
        r#"{{"state":"owned","name":"a","mode":"shared","clientId":"{client}","taken":7}}"#
    );
    assert_eq!(all[0].json().to_string(), json);
}

#[test]
fn a_row_has_a_word_in_every_cell_and_says_nothing_unseen() {
    let mut inspected = inspected("db");
    let mut agent = AgentInfo::default();
    agent.why = "\u{1b}[31m".to_owned();
    inspected.agent = Some(Arc::new(agent));
    let args = QueryArgs { all_buckets: true, ..QueryArgs::default() };
    let shown = table(&[Entry::new("pending", &inspected, Some(2))], &args, None, false);
    let id = inspected.lock.client_id.to_string();
    let expected =
        ["pending", "-", "db", "exclusive", "-", "-", "-", "-", r"\u{1b}[31m", "2", id.as_str()];
    let row = shown.lines().last().unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), expected);
}

#[test]
fn hosts_are_shown_once_there_are_several() {
    let on = |host: &str| {
        let mut inspected = inspected("db");
        let mut agent = AgentInfo::default();
        (agent.user, agent.host) = ("ada".to_owned(), host.to_owned());
        inspected.agent = Some(Arc::new(agent));
        inspected
    };
    let shown = |hosts: &[&str]| {
        let held = hosts.iter().copied().map(on).collect();
        let inspection = Inspection::new(held, Vec::new());
        let args = QueryArgs::default();
        table(&Entry::all(&inspection, &QueryArgs::default(), false), &args, None, false)
    };
    let here = navlock_broker::this_process().host;
    let alone = shown(&[&here, ""]);
    assert!(alone.contains(" USER ") && !alone.contains('@'), "{alone}");
    let both = shown(&[&here, "elsewhere"]);
    assert!(both.contains("USER@HOST"), "{both}");
    assert!(both.contains("ada@elsewhere") && both.contains(&format!("ada@{here}")), "{both}");
    let inspection = Inspection::new(vec![on(&"h".repeat(60))], Vec::new());
    let args = QueryArgs::default();
    for line in
        table(&Entry::all(&inspection, &QueryArgs::default(), false), &args, Some((80, 24)), false)
            .lines()
    {
        assert!(crate::text::width(line) <= 80, "{line}");
    }
}
