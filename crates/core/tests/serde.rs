//! Snapshots as serde writes and reads them.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    task::{Context, Waker},
};

use navlock_core::{LockManagerSnapshot, ResourceName, UserAgent, blocking::block_on};
use serde_json::json;

#[test]
fn a_snapshot_is_written_as_the_specification_has_it_and_read_again() {
    let locks = UserAgent::new().lock_manager("app");
    let _held = block_on(locks.lock("db").shared()).unwrap();
    let mut waits = pin!(locks.lock("db").into_future());
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());

    let snapshot = block_on(locks.query()).unwrap();
    let written = serde_json::to_value(&snapshot).unwrap();
    let client_id = locks.client_id().to_string();
    let expected = json!({
        "held": [{ "name": "db", "mode": "shared", "clientId": client_id }],
        "pending": [{ "name": "db", "mode": "exclusive", "clientId": client_id }],
    });
    assert_eq!(written, expected);
    assert_eq!(serde_json::from_value::<LockManagerSnapshot>(written).unwrap(), snapshot);
}

#[test]
fn a_lone_surrogate_is_written_as_a_replacement_character() {
    let locks = UserAgent::new().lock_manager("app");
    let name = ResourceName::from_utf16(&[0x64, 0xD800]).unwrap();
    let _held = block_on(locks.lock(name)).unwrap();
    let written = serde_json::to_value(block_on(locks.query()).unwrap()).unwrap();
    assert_eq!(written["held"][0]["name"], "d\u{FFFD}");
}

#[test]
fn a_malformed_snapshot_is_refused() {
    for (member, value) in [("name", "-"), ("mode", "Shared"), ("clientId", "me")] {
        let mut entry = json!({
            "name": "db",
            "mode": "shared",
            "clientId": "2f3f14e0-2a1f-4a80-9d0b-0b8e6a5e3a71",
        });
        let snapshot = |entry| json!({ "held": [entry], "pending": [] });
        assert!(serde_json::from_value::<LockManagerSnapshot>(snapshot(entry.clone())).is_ok());
        entry[member] = value.into();
        let refused = serde_json::from_value::<LockManagerSnapshot>(snapshot(entry));
        assert!(refused.is_err(), "{member}: {value}");
    }
}
