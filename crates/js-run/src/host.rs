//! What scripts ask of the program: the function `host` of the prelude.

use std::{
    cell::{Cell, RefCell, RefMut},
    collections::{HashMap, HashSet},
    fs,
    io::{Write, stderr, stdout},
    process,
    str::FromStr,
    sync::Arc,
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    args::{Reach, set},
    mailbox::{Event, Mailbox, Source},
    processes::{self, Process},
    shared::{Role, Shared},
    timers::Timers,
    vm::Failure,
    workers,
};

/// What an agent has besides its virtual machine.
pub(crate) struct Host {
    shared: Arc<Shared>,
    role: Role,
    mailbox: Arc<Mailbox>,
    started: Instant,
    timers: RefCell<Timers>,
    workers: RefCell<HashMap<u64, Arc<Mailbox>>>,
    processes: RefCell<HashMap<u64, Process>>,
    /// The sources of events for which the agent stays alive.
    sources: RefCell<HashSet<Source>>,
    is_closed: Cell<bool>,
    /// Whether the agent goes on when no script handles a rejection, as a page does.
    ignores_rejections: Cell<bool>,
    /// An error that a script has reported because nothing has caught it.
    reported: RefCell<Option<String>>,
}

type Answer = Result<Option<String>, String>;

impl Host {
    pub(crate) fn new(shared: Arc<Shared>, role: Role, mailbox: Arc<Mailbox>) -> Self {
        Self {
            shared,
            role,
            mailbox,
            started: Instant::now(),
            timers: RefCell::default(),
            workers: RefCell::default(),
            processes: RefCell::default(),
            sources: RefCell::default(),
            is_closed: Cell::new(false),
            ignores_rejections: Cell::new(false),
            reported: RefCell::default(),
        }
    }

    pub(crate) fn timers(&self) -> RefMut<'_, Timers> {
        self.timers.borrow_mut()
    }

    /// Whether the agent has asked for its end.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Whether anything but its locks keeps the agent alive.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.timers.borrow().keep_alive() || !self.sources.borrow().is_empty()
    }

    /// Forgets a source that sends no more events.
    pub(crate) fn forget(&self, over: Option<Source>) {
        let Some(source) = over else { return };
        self.sources.borrow_mut().remove(&source);
        match source {
            Source::Worker(number) => drop(self.workers.borrow_mut().remove(&number)),
            Source::Process(number) => drop(self.processes.borrow_mut().remove(&number)),
            Source::Parent | Source::Input => {}
        }
    }

    /// Whether the agent can go on after a call into its machine.
    ///
    /// # Errors
    ///
    /// The agent cannot go on.
    pub(crate) fn judge(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        if let Some(error) = self.reported.take() {
            return Err(Failure::Uncaught(error));
        }
        match outcome {
            Err(Failure::Rejected(_)) if self.ignores_rejections.get() => Ok(()),
            outcome => outcome,
        }
    }

    /// Runs the operation `op`, with `text` as its argument.
    ///
    /// # Errors
    ///
    /// The operation is wrong, or has failed.
    pub(crate) fn call(&self, op: &str, text: &str) -> Answer {
        match op {
            "self" => return Ok(Some(self.describe())),
            "print" => writeln_to(stdout(), text),
            "complain" => writeln_to(stderr(), text),
            "now" => return Ok(Some((self.started.elapsed().as_secs_f64() * 1000.0).to_string())),
            "uuid" => return Ok(Some(uuid::Uuid::new_v4().to_string())),
            "memory" => return resident_memory().map(Some),
            "environment" => return Ok(set(text)),
            "read" => {
                let read = fs::read_to_string(text);
                return read.map(Some).map_err(|error| format!("cannot read {text}: {error}"));
            }
            "timer" => {
                let (number, rest) = split(text)?;
                let (milliseconds, is_referenced) = split(rest)?;
                self.timers.borrow_mut().set(number, milliseconds, is_referenced == "true");
            }
            "cancel" => self.timers.borrow_mut().cancel(parse(text)?),
            "exit" => process::exit(parse(text)?),
            "close" => self.is_closed.set(true),
            "report" => *self.reported.borrow_mut() = Some(text.to_owned()),
            "ignore rejections" => self.ignores_rejections.set(true),
            "input" => self.read_input()?,
            "stop input" => self.forget(Some(Source::Input)),
            "listen" => drop(self.sources.borrow_mut().insert(Source::Parent)),
            "stop listening" => self.forget(Some(Source::Parent)),
            "post" => self.post(text)?,
            "worker" => self.start_worker(text)?,
            "post to worker" => {
                let (number, message) = split(text)?;
                if let Some(worker) = self.workers.borrow().get(&number) {
                    worker.send(Event { text: format!(r#"{{"message":{message}}}"#), over: None });
                }
            }
            "terminate" => {
                let source = Source::Worker(parse(text)?);
                if let Some(worker) = self.workers.borrow().get(&parse(text)?) {
                    worker.stop();
                }
                // The engine may be unable to stop the worker, so the agent does not wait for the
                // worker's end.
                self.sources.borrow_mut().remove(&source);
            }
            "process" => self.start_process(text)?,
            "write to process" => {
                let (number, line) = split(text)?;
                if let Some(process) = self.processes.borrow_mut().get_mut(&number) {
                    process.write(line);
                }
            }
            "kill" => {
                if let Some(process) = self.processes.borrow_mut().get_mut(&parse(text)?) {
                    process.kill();
                }
            }
            _ => return Err(format!("there is no {op:?} to ask for")),
        }
        Ok(None)
    }

    fn describe(&self) -> String {
        let mut told = json!({
            "engine": self.shared.title,
            "reach": match self.shared.locks.reach {
                Reach::Process => "process",
                Reach::Machine => "machine",
            },
            "bucket": self.shared.locks.bucket,
            "script": self.role.script(),
        });
        match &self.role {
            Role::Main { arguments, .. } => told["arguments"] = json!(arguments),
            Role::Worker { argument, .. } => told["argument"] = json!(argument),
        }
        told.to_string()
    }

    fn post(&self, message: &str) -> Result<(), String> {
        let Role::Worker { number, parent, .. } = &self.role else {
            return Err("there is nobody to post to: this is no worker".to_owned());
        };
        let text = format!(r#"{{"worker":{number},"message":{message}}}"#);
        parent.send(Event { text, over: None });
        Ok(())
    }

    fn start_worker(&self, text: &str) -> Result<(), String> {
        let (number, rest) = split(text)?;
        let wanted: Value = serde_json::from_str(rest).map_err(|error| error.to_string())?;
        let (script, argument) = (string(&wanted, "script")?, string(&wanted, "argument")?);
        let folder = self.role.script().parent().unwrap_or(self.role.script());
        let script = folder.join(script);
        let role = Role::Worker { script, argument, number, parent: Arc::clone(&self.mailbox) };
        let worker = workers::start(Arc::clone(&self.shared), role)?;
        self.workers.borrow_mut().insert(number, worker);
        self.sources.borrow_mut().insert(Source::Worker(number));
        Ok(())
    }

    fn start_process(&self, text: &str) -> Result<(), String> {
        let (number, rest) = split(text)?;
        let arguments: Vec<String> =
            serde_json::from_str(rest).map_err(|error| error.to_string())?;
        let process = processes::start(&self.shared, number, arguments, &self.mailbox)?;
        self.processes.borrow_mut().insert(number, process);
        self.sources.borrow_mut().insert(Source::Process(number));
        Ok(())
    }

    fn read_input(&self) -> Result<(), String> {
        if self.sources.borrow_mut().insert(Source::Input) {
            processes::read_input(Arc::clone(&self.mailbox))?;
        }
        Ok(())
    }
}

/// All workers of the agent end with it.
impl Drop for Host {
    fn drop(&mut self) {
        for worker in self.workers.get_mut().values() {
            worker.stop();
        }
    }
}

/// Writes a line. If nobody reads the stream, there is nobody to tell of the error.
fn writeln_to(mut stream: impl Write, text: &str) {
    let _ = writeln!(stream, "{text}").and_then(|()| stream.flush());
}

/// Splits a text into a number and the text behind it.
fn split<T: FromStr>(text: &str) -> Result<(T, &str), String> {
    let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
    Ok((parse(number)?, rest))
}

fn parse<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("a number was expected, not {text:?}"))
}

fn string(value: &Value, member: &str) -> Result<String, String> {
    let text = value[member].as_str().ok_or_else(|| format!("{member} must be a string"))?;
    Ok(text.to_owned())
}

/// The memory of this process that is in use, in bytes.
fn resident_memory() -> Result<String, String> {
    let status = fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("this system does not tell how much memory is in use: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let kilobytes = kilobytes.ok_or("this system does not tell how much memory is in use")?;
    Ok((kilobytes * 1024).to_string())
}
