//! What locks are for, as their requests say it.

use std::{future::IntoFuture, pin::pin, time::Duration};

use navlock_core::{
    AgentInfo, Error, Inspected, ResourceName, UserAgent, blocking::block_on, look::Entry,
};

use crate::{begin_all, fold::name, poll, take_events};

#[test]
fn what_a_request_is_for_is_shown_with_its_lock_and_with_no_other_lock_of_its_agent() {
    let user_agent = UserAgent::new();
    let locks = user_agent.lock_manager("app");
    let mut info = AgentInfo::default();
    (info.pid, info.why) = (7, "service".to_owned());
    locks.describe(&info);
    let mut early = begin_all(&user_agent);
    let held = locks.lock("db").shared().why("backup").blocking().unwrap();
    let both = locks.lock_all(["log", "tmp"]).why("cleaning").blocking().unwrap();
    let _plain = locks.lock("plain").blocking().unwrap();
    let mut waits = pin!(locks.lock("db").why("repair").into_future());
    assert!(!poll(waits.as_mut()));
    let timed = locks.lock("db").why("in time").blocking_timeout(Duration::ZERO);
    assert!(matches!(timed.unwrap_err(), Error::TimedOut(_)));
    take_events(&mut early);
    let said = |agent: &AgentInfo| (agent.pid, agent.why.clone());
    let as_said = |why: &str| Some((7, why.to_owned()));
    for overview in [early.overview(), begin_all(&user_agent).overview()] {
        let of = |one: &str| &overview.queues[&name("app", one)];
        let why = |entry: &Entry| overview.info_of(entry).map(|agent| said(&agent));
        let holders = ["db", "log", "tmp", "plain"].map(|name| why(&of(name).held[0]));
        assert_eq!(holders, ["backup", "cleaning", "cleaning", "service"].map(as_said));
        assert_eq!(why(&of("db").pending[0]), as_said("repair"));
    }
    let db = || ResourceName::try_from("db").unwrap();
    let why = |one: &Inspected| one.agent.as_deref().map(said);
    let seen = block_on(locks.inspect(Some(db()))).unwrap();
    assert_eq!([why(&seen.held[0]), why(&seen.pending[0])], ["backup", "repair"].map(as_said));
    let position = block_on(locks.position(db())).unwrap();
    assert_eq!(why(&position.holder.unwrap()), as_said("backup"));
    drop((held, both));
    assert!(poll(waits.as_mut()));
    drop(locks.lock("db").blocking().unwrap());
    assert_eq!(why(&block_on(locks.inspect(None)).unwrap().held[0]), as_said("service"));
}

#[test]
fn a_description_adds_to_what_is_known_of_an_agent() {
    let locks = UserAgent::new().lock_manager("app");
    let info = AgentInfo::default().pid(7).command("make").user("ada").host("engine");
    locks.describe(&info.clone().why("first").meta("url", "x"));
    locks.describe(&AgentInfo::default().why("second"));
    locks.describe(&AgentInfo::default());
    let _held = locks.lock("db").blocking().unwrap();
    let seen = block_on(locks.inspect(None)).unwrap();
    assert_eq!(seen.held[0].agent.as_deref(), Some(&info.why("second").meta("url", "x")));
}

#[test]
fn who_has_waited_for_too_long_is_told_which_lock_and_who_holds_it() {
    let locks = UserAgent::new().lock_manager("app");
    locks.describe(&AgentInfo::default().pid(7).command("/bin/make -j").user("ada").host("engine"));
    let holder = locks.lock("db").shared().why("backup").blocking().unwrap();
    let told = |who: &str| format!("\"db\": the lock could not be had in the time given; {who} it");
    let late = || locks.lock("db").blocking_timeout(Duration::ZERO).unwrap_err().to_string();
    assert_eq!(late(), told("make[7] ada@engine (backup) holds"));
    let both = locks.lock_all(["a", "db"]).blocking_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(both.to_string(), told("make[7] ada@engine (backup) holds"));
    let _second = locks.lock("db").shared().blocking().unwrap();
    assert_eq!(late(), told("make[7] ada@engine (backup) and others hold"));
    drop(holder);
    assert_eq!(late(), told("make[7] ada@engine holds"));
}
