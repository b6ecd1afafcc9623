//! How the arguments of `request()` are converted, and in which order.

use std::{cell::RefCell, rc::Rc};

use navlock_core::UserAgent;
use navlock_js::illegal_invocation;

use super::{
    YES, identity, is_free, options,
    script::{Failure, Property, Script, Signal, Value},
    start,
};

#[test]
fn checks_are_made_in_the_order_of_the_specification() {
    let signal = || Value::Signal(Rc::default());
    let aborted = || {
        let (signal, mut script) = (Rc::new(Signal::default()), start().0);
        script.abort(&signal, &"aborted".into()).unwrap();
        Value::Signal(signal)
    };
    // Each case also has the fault for which the next case is refused.
    let cases: [(&str, Value, &str); 6] = [
        ("-db", options([("steal", YES), ("ifAvailable", YES), ("signal", aborted())]), "reserved"),
        (
            "db",
            options([("steal", YES), ("ifAvailable", YES), ("mode", "shared".into())]),
            "exclude",
        ),
        (
            "db",
            options([("steal", YES), ("mode", "shared".into()), ("signal", aborted())]),
            "exclusive",
        ),
        ("db", options([("steal", YES), ("signal", aborted())]), "signal"),
        ("db", options([("ifAvailable", YES), ("signal", signal())]), "signal"),
        ("db", options([("signal", aborted())]), "aborted"),
    ];
    let (mut script, other) = start();
    for (name, options, why) in cases.clone() {
        let promise = script.request(&[name.into(), options, identity()]).unwrap();
        match promise.outcome() {
            Some(Err(Value::Error { name: "NotSupportedError", message })) => {
                let is_said = message.contains(why) || (why == "reserved" && message.contains('-'));
                assert!(is_said, "{message:?} is not about {why}");
            }
            Some(Err(reason)) => assert_eq!(reason.text(), why),
            outcome => panic!("{why}: {outcome:?}"),
        }
    }
    script.realm.locks().set_fully_active(false);
    for (name, options, _) in cases {
        let promise = script.request(&[name.into(), options, identity()]).unwrap();
        assert_eq!(promise.rejection().as_deref(), Some("InvalidStateError"));
    }
    assert_eq!(script.query().unwrap().rejection().as_deref(), Some("InvalidStateError"));
    assert!(is_free(&other, "db"));

    let mut opaque = Script::new(UserAgent::new().opaque_bucket().lock_manager());
    let promise = opaque.request(&["-db".into(), identity()]).unwrap();
    assert_eq!(promise.rejection().as_deref(), Some("SecurityError"));
    assert_eq!(opaque.query().unwrap().rejection().as_deref(), Some("SecurityError"));
}

#[test]
fn arguments_are_converted_once_from_the_left_to_the_right() {
    let (mut script, _other) = start();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let note = |what: &'static str, value: Value| {
        let seen = Rc::clone(&seen);
        Property::Getter(Rc::new(move |_| {
            seen.borrow_mut().push(what);
            Ok(value.clone())
        }))
    };
    let name = Value::Object(Rc::new(vec![(
        "toString",
        note("name", Value::function(|_, _| Ok("db".into()))),
    )]));
    let options = Value::Object(Rc::new(vec![
        ("steal", note("steal", Value::Undefined)),
        ("signal", note("signal", Value::Undefined)),
        ("mode", note("mode", "shared".into())),
        ("ifAvailable", note("ifAvailable", Value::Undefined)),
    ]));
    let promise = script.request(&[name.clone(), options.clone(), identity(), YES]).unwrap();
    script.run().unwrap();
    let lock = promise.outcome().unwrap().unwrap();
    assert_eq!(lock.get("mode").unwrap().text(), "shared");
    let order = ["name", "ifAvailable", "mode", "signal", "steal"];
    assert_eq!(*seen.borrow(), order);
    seen.borrow_mut().clear();
    // The callback is checked last.
    let promise = script.request(&[name, options, "no function".into()]).unwrap();
    assert_eq!(promise.rejection().as_deref(), Some("TypeError"));
    assert_eq!(*seen.borrow(), order);
}

#[test]
fn an_argument_that_cannot_be_converted_is_a_rejection() {
    let (mut script, other) = start();
    let thrown = Value::Object(Rc::new(vec![(
        "mode",
        Property::Getter(Rc::new(|_| Err(Failure::Thrown("as planned".into())))),
    )]));
    let cases: [(Vec<Value>, &str); 9] = [
        (vec![], "TypeError"),
        (vec!["db".into()], "TypeError"),
        (vec![Value::Symbol, identity()], "TypeError"),
        (vec!["db".into(), YES, identity()], "TypeError"),
        (vec!["db".into(), options([("mode", "Shared".into())]), identity()], "TypeError"),
        (vec!["db".into(), options([("signal", Value::Null)]), identity()], "TypeError"),
        (vec!["db".into(), identity(), Value::Undefined], "TypeError"),
        (vec!["db".into(), Value::Null, Value::object([])], "TypeError"),
        (vec!["db".into(), thrown, identity()], "as planned"),
    ];
    for (arguments, reason) in cases {
        let promise = script.request(&arguments).unwrap();
        assert_eq!(promise.rejection().as_deref(), Some(reason));
        assert!(is_free(&other, "db") && !script.realm.is_waiting());
    }
    let Ok(Value::Promise(promise)) = illegal_invocation(&mut script, "query") else { panic!() };
    assert_eq!(promise.rejection().as_deref(), Some("TypeError"));
}
