//! Implements the calls of an engine, for the engine without a language.

use std::rc::Rc;

use navlock_core::{Mode, ResourceName};
use navlock_js::{Engine, RequestKey};

use super::{Failure, Promise, Property, Script, Value};

impl Engine for Script {
    type Value = Value;
    type Deferred = Promise;
    type Error = Failure;

    fn undefined(&mut self) -> Value {
        Value::Undefined
    }

    fn null(&mut self) -> Value {
        Value::Null
    }

    fn is_undefined(&mut self, value: &Value) -> bool {
        matches!(value, Value::Undefined)
    }

    fn is_null(&mut self, value: &Value) -> bool {
        matches!(value, Value::Null)
    }

    fn is_object(&mut self, value: &Value) -> bool {
        use Value::{Boolean, Null, String, Symbol, Undefined};
        !matches!(value, Undefined | Null | Boolean(_) | String(_) | Symbol)
    }

    fn is_callable(&mut self, value: &Value) -> bool {
        matches!(value, Value::Function(_))
    }

    fn to_boolean(&mut self, value: &Value) -> bool {
        !matches!(value, Value::Undefined | Value::Null | Value::Boolean(false))
    }

    fn to_utf16(&mut self, value: &Value) -> Result<Vec<u16>, Failure> {
        self.step()?;
        match value {
            Value::String(units) => Ok(units.clone()),
            Value::Object(_) => match self.get(value, "toString")? {
                Value::Function(convert) => {
                    let text = convert(self, Value::Undefined)?;
                    self.to_utf16(&text)
                }
                _ => Ok("[object Object]".encode_utf16().collect()),
            },
            Value::Symbol => {
                let error = self.type_error("a symbol is no string")?;
                Err(self.throw(error))
            }
            other => Ok(format!("{other:?}").encode_utf16().collect()),
        }
    }

    fn get(&mut self, object: &Value, key: &'static str) -> Result<Value, Failure> {
        self.step()?;
        let Value::Object(properties) = object else { return Ok(Value::Undefined) };
        let found =
            properties.iter().find(|(name, _)| *name == key).map(|(_, found)| found.clone());
        match found {
            None => Ok(Value::Undefined),
            Some(Property::Data(value)) => Ok(value),
            Some(Property::Getter(get)) => get(self),
        }
    }

    fn call(&mut self, function: &Value, argument: Value) -> Result<Value, Failure> {
        self.step()?;
        match function {
            Value::Function(run) => run(self, argument),
            _ => panic!("a value is called that is no function"),
        }
    }

    fn string(&mut self, units: &[u16]) -> Result<Value, Failure> {
        self.step()?;
        Ok(Value::String(units.to_vec()))
    }

    fn object<const N: usize>(
        &mut self,
        properties: [(&'static str, Value); N],
    ) -> Result<Value, Failure> {
        self.step()?;
        Ok(Value::object(properties))
    }

    fn array(&mut self, values: Vec<Value>) -> Result<Value, Failure> {
        self.step()?;
        Ok(Value::Array(Rc::new(values)))
    }

    fn lock(&mut self, name: ResourceName, mode: Mode) -> Result<Value, Failure> {
        self.step()?;
        let name = Value::String(name.utf16().collect());
        Ok(Value::object([("name", name), ("mode", mode.as_str().into())]))
    }

    fn type_error(&mut self, message: &str) -> Result<Value, Failure> {
        self.dom_exception("TypeError", message)
    }

    fn dom_exception(&mut self, name: &'static str, message: &str) -> Result<Value, Failure> {
        self.step()?;
        Ok(Value::Error { name, message: message.to_owned() })
    }

    fn throw(&mut self, value: Value) -> Failure {
        Failure::Thrown(value)
    }

    fn catch(&mut self, error: Failure) -> Result<Value, Failure> {
        match error {
            Failure::Thrown(value) => Ok(value),
            Failure::Stopped => Err(error),
        }
    }

    fn new_promise(&mut self) -> Result<(Value, Promise), Failure> {
        self.step()?;
        let promise = Promise::new();
        Ok((Value::Promise(promise.clone()), promise))
    }

    fn resolve(&mut self, deferred: Promise, value: Value) -> Result<(), Failure> {
        self.step()?;
        self.settle(&deferred, Ok(value));
        Ok(())
    }

    fn reject(&mut self, deferred: Promise, reason: Value) -> Result<(), Failure> {
        self.step()?;
        self.settle(&deferred, Err(reason));
        Ok(())
    }

    fn react(&mut self, value: Value, key: RequestKey) -> Result<(), Failure> {
        self.step()?;
        let Value::Promise(promise) = value else {
            self.microtasks.push_back((key, Ok(value)));
            return Ok(());
        };
        match promise.outcome() {
            Some(outcome) => self.microtasks.push_back((key, outcome)),
            None => promise.0.borrow_mut().reactions.push(key),
        }
        Ok(())
    }

    fn is_signal(&mut self, value: &Value) -> Result<bool, Failure> {
        self.step()?;
        Ok(matches!(value, Value::Signal(_)))
    }

    fn abort_reason(&mut self, signal: &Value) -> Result<Option<Value>, Failure> {
        self.step()?;
        let Value::Signal(signal) = signal else { panic!("it was looked whether it is one") };
        let when_asked = signal.when_asked.take();
        when_asked.map(|run| run(self)).transpose()?;
        Ok(signal.reason.borrow().clone())
    }

    fn add_abort_algorithm(&mut self, signal: &Value, key: RequestKey) -> Result<Value, Failure> {
        self.step()?;
        let Value::Signal(signal) = signal else { panic!("it was looked whether it is one") };
        let when_added = signal.when_added.take();
        when_added.map(|run| run(self)).transpose()?;
        signal.algorithms.borrow_mut().push(key);
        Ok(Value::Algorithm(key.to_bits()))
    }

    fn remove_abort_algorithm(&mut self, signal: &Value, algorithm: &Value) -> Result<(), Failure> {
        self.step()?;
        let (Value::Signal(signal), Value::Algorithm(bits)) = (signal, algorithm) else {
            panic!("it is not the algorithm of a signal")
        };
        signal.algorithms.borrow_mut().retain(|key| *key != RequestKey::from_bits(*bits));
        Ok(())
    }
}
