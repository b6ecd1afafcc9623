//! An engine without a language. Functions are Rust closures. Promises are settled by tests or by
//! these closures.
//!
//! A test can make the n-th call of the engine fail, and no script can catch this failure.

mod engine;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use navlock_core::LockManager;
use navlock_js::{Realm, RequestKey};

type Function = Rc<dyn Fn(&mut Script, Value) -> Result<Value, Failure>>;
type Getter = Rc<dyn Fn(&mut Script) -> Result<Value, Failure>>;

#[derive(Clone)]
pub(crate) enum Value {
    Undefined,
    Null,
    Boolean(bool),
    String(Vec<u16>),
    Symbol,
    Object(Rc<Vec<(&'static str, Property)>>),
    Array(Rc<Vec<Value>>),
    Function(Function),
    Error { name: &'static str, message: String },
    Promise(Promise),
    Signal(Rc<Signal>),
    Algorithm(u64),
}

#[derive(Clone)]
pub(crate) enum Property {
    Data(Value),
    Getter(Getter),
}

/// Why a call has failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Thrown(Value),
    /// A failure that no script can catch.
    Stopped,
}

#[derive(Clone)]
pub(crate) struct Promise(Rc<RefCell<PromiseState>>);

#[derive(Default)]
struct PromiseState {
    outcome: Option<Result<Value, Value>>,
    reactions: Vec<RequestKey>,
}

/// A signal that its test aborts.
#[derive(Default)]
pub(crate) struct Signal {
    /// Runs when the signal is first asked whether it has aborted.
    pub(crate) when_asked: RefCell<Option<Getter>>,
    /// Runs when the signal first gets an algorithm.
    pub(crate) when_added: RefCell<Option<Getter>>,
    reason: RefCell<Option<Value>>,
    algorithms: RefCell<Vec<RequestKey>>,
}

pub(crate) type ScriptRealm = Realm<Value, Promise>;

/// The engine, with its only realm.
pub(crate) struct Script {
    pub(crate) realm: ScriptRealm,
    microtasks: VecDeque<(RequestKey, Result<Value, Value>)>,
    /// Counts down the calls until one fails.
    fuse: Cell<Option<usize>>,
    /// Counts down the calls until one throws. This happens once.
    throws: Cell<usize>,
}

impl Script {
    pub(crate) fn new(locks: LockManager) -> Self {
        Self {
            realm: Realm::new(locks),
            microtasks: VecDeque::new(),
            fuse: Cell::default(),
            throws: Cell::default(),
        }
    }

    pub(crate) fn throw_at(&self, call: usize) {
        self.throws.set(call);
    }

    pub(crate) fn fail_after(&self, calls: Option<usize>) {
        self.fuse.set(calls);
    }

    /// One call of the engine, which may fail.
    fn step(&self) -> Result<(), Failure> {
        let throws = self.throws.get();
        self.throws.set(throws.saturating_sub(1));
        if throws == 1 {
            return Err(Failure::Thrown("as planned".into()));
        }
        match self.fuse.get() {
            None => Ok(()),
            Some(0 | 1) => {
                self.fuse.set(Some(0));
                Err(Failure::Stopped)
            }
            Some(calls) => {
                self.fuse.set(Some(calls - 1));
                Ok(())
            }
        }
    }

    pub(crate) fn request(&mut self, arguments: &[Value]) -> Result<Promise, Failure> {
        let realm = self.realm.clone();
        realm.request(self, arguments).map(Value::into_promise)
    }

    pub(crate) fn query(&mut self) -> Result<Promise, Failure> {
        let realm = self.realm.clone();
        realm.query(self).map(Value::into_promise)
    }

    /// Runs tasks, and the microtasks after each, until there are none.
    pub(crate) fn run(&mut self) -> Result<(), Failure> {
        let realm = self.realm.clone();
        loop {
            self.run_microtasks()?;
            if !realm.run_task(self)? {
                return Ok(());
            }
        }
    }

    pub(crate) fn run_microtasks(&mut self) -> Result<(), Failure> {
        let realm = self.realm.clone();
        while let Some((key, outcome)) = self.microtasks.pop_front() {
            realm.settle(self, key, outcome)?;
        }
        Ok(())
    }

    pub(crate) fn abort(&mut self, signal: &Signal, reason: &Value) -> Result<(), Failure> {
        let realm = self.realm.clone();
        *signal.reason.borrow_mut() = Some(reason.clone());
        for key in signal.algorithms.take() {
            realm.abort(self, key, reason.clone())?;
        }
        Ok(())
    }

    pub(crate) fn settle(&mut self, promise: &Promise, outcome: Result<Value, Value>) {
        let mut state = promise.0.borrow_mut();
        if state.outcome.is_none() {
            let reactions = state.reactions.drain(..).map(|key| (key, outcome.clone()));
            self.microtasks.extend(reactions);
            state.outcome = Some(outcome);
        }
    }
}

impl Signal {
    pub(crate) fn algorithms(&self) -> Vec<RequestKey> {
        self.algorithms.borrow().clone()
    }
}

impl Promise {
    pub(crate) fn new() -> Self {
        Self(Rc::default())
    }

    pub(crate) fn outcome(&self) -> Option<Result<Value, Value>> {
        self.0.borrow().outcome.clone()
    }

    /// The requests that are settled together with this promise.
    pub(crate) fn reactions(&self) -> Vec<RequestKey> {
        self.0.borrow().reactions.clone()
    }

    /// The reason of the rejection: the name of the exception, or the thrown string.
    pub(crate) fn rejection(&self) -> Option<String> {
        match self.outcome()? {
            Ok(_) => None,
            Err(Value::Error { name, .. }) => Some(name.to_owned()),
            Err(Value::String(units)) => Some(String::from_utf16_lossy(&units)),
            Err(_) => Some("something".to_owned()),
        }
    }
}

impl Value {
    fn into_promise(self) -> Promise {
        match self {
            Value::Promise(promise) => promise,
            _ => panic!("it does not answer with a promise"),
        }
    }

    pub(crate) fn function(
        run: impl Fn(&mut Script, Value) -> Result<Value, Failure> + 'static,
    ) -> Self {
        Self::Function(Rc::new(run))
    }

    pub(crate) fn object<const N: usize>(properties: [(&'static str, Value); N]) -> Self {
        let properties = properties.map(|(key, value)| (key, Property::Data(value)));
        Self::Object(Rc::new(properties.into()))
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        let Self::Object(properties) = self else { return None };
        properties.iter().find_map(|(name, property)| match property {
            Property::Data(value) if *name == key => Some(value.clone()),
            _ => None,
        })
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::String(units) => String::from_utf16_lossy(units),
            other => format!("{other:?}"),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.encode_utf16().collect())
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::String(units) => write!(f, "{:?}", String::from_utf16_lossy(units)),
            Self::Error { name, message } => write!(f, "{name}: {message}"),
            Self::Boolean(value) => value.fmt(f),
            Self::Undefined => f.write_str("undefined"),
            Self::Null => f.write_str("null"),
            _ => f.write_str("something"),
        }
    }
}
