//! The thread that speaks to the store for one connection.
//!
//! Callers leave messages for the thread, and are woken by their wakers. No call waits
//! for the thread. It is one task on a runtime of its own.

use std::{future::ready, time::Duration};

use navlock_core::Error;
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
    time::timeout,
};

use crate::{driver::Driver, failure::failed, key_store::KeyStore, messages::Message};

/// So many messages are handled before the store is heard. One call then does what many callers want, and however
/// many there are, a lease is renewed and lost in time.
const IN_A_ROW: u32 = 64;

/// For how long, after its owners have gone, the thread still tells the store what has ended. The last owner waits
/// for that.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves until the owners are gone, and the store knows it.
pub(crate) async fn serve(
    mut driver: Driver<impl KeyStore>,
    mut heard: mpsc::UnboundedReceiver<Message>,
) {
    let mut row = 0;
    loop {
        tokio::select! {
            biased;
            message = heard.recv(), if row < IN_A_ROW => {
                row += 1;
                match message {
                    Some(message) => driver.handle_message(message),
                    None => break,
                }
            }
            () = driver.next() => row = 0,
            // The store has said nothing.
            () = ready(()), if row > 0 => row = 0,
        }
    }
    driver.quit();
    let ending = async {
        while !driver.is_done() {
            driver.next().await;
        }
    };
    let _ = timeout(END_TIMEOUT, ending).await;
}

/// A runtime of one thread, for calls to this store: the caller may have another executor, or none.
///
/// # Errors
///
/// [`Error::Unreachable`] if the system gives none.
pub fn runtime(store: &str) -> Result<Runtime, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| failed(store, "a runtime", error))
}
