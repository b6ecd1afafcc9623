//! Workers: agents on threads of their own.

use std::sync::Arc;

use serde_json::json;

use crate::{
    mailbox::{Event, Mailbox, Source},
    shared::{Role, Shared, on_thread},
};

/// Starts a worker. When the worker ends, its locks are released, and then its parent is told.
///
/// # Errors
///
/// This process may start no more threads.
pub(crate) fn start(shared: Arc<Shared>, role: Role) -> Result<Arc<Mailbox>, String> {
    let Role::Worker { number, parent, .. } = &role else {
        return Err("the main agent is no worker".to_owned());
    };
    let (number, parent) = (*number, Arc::clone(parent));
    let mailbox = Arc::new(Mailbox::default());
    let own = Arc::clone(&mailbox);
    let run = shared.run_worker;
    let worker = move || {
        let end = End { number, parent };
        let error = run(shared, role, &own).err().map(|failure| failure.to_string());
        end.tell(error.as_deref());
    };
    match on_thread("worker", worker) {
        Ok(_) => Ok(mailbox),
        Err(error) => Err(format!("there is no room for a worker: {error}")),
    }
}

/// Tells the parent that a worker has ended, even if the worker has panicked.
struct End {
    number: u64,
    parent: Arc<Mailbox>,
}

impl End {
    fn tell(&self, error: Option<&str>) {
        let text = json!({ "worker": self.number, "end": { "error": error } }).to_string();
        self.parent.send(Event { text, over: Some(Source::Worker(self.number)) });
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell(Some("the worker has panicked"));
        }
    }
}
