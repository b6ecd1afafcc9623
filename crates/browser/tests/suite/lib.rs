//! The backend suite on the browser's own locks, for a page that calls each test: `cargo xtask browser`.
//!
//! A test waits as it does everywhere, by a call that returns when what it waits for has come. Here
//! that call suspends the whole test (JavaScript Promise Integration), so that the page's event
//! loop goes on. One test at a time can be suspended so: all share one stack.

#![cfg(target_arch = "wasm32")]

mod own;

use std::{sync::Once, time::Duration};

use navlock_testkit::suite::{TESTS, TURN, Test};
use wasm_bindgen::prelude::*;

#[link(wasm_import_module = "./turn.mjs")]
unsafe extern "C" {
    /// Lets the event loop take a turn. The time since the page began, in milliseconds.
    safe fn turn() -> f64;
}

#[wasm_bindgen]
extern "C" {
    /// Where the page finds why a test failed.
    #[wasm_bindgen(js_namespace = console)]
    fn error(message: &str);
}

/// The suite's, then our own.
fn tests() -> impl Iterator<Item = &'static Test> {
    TESTS.iter().chain(own::TESTS)
}

/// The names of the tests, a line each.
#[wasm_bindgen]
pub fn names() -> String {
    tests().map(|(name, _)| *name).collect::<Vec<_>>().join("\n")
}

/// Runs the test with this number. The page calls it so that it may be suspended: what wasm-bindgen makes of
/// an export may not.
// SAFETY: no other function of the program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn run(number: u32) {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        std::panic::set_hook(Box::new(|panicked| error(&panicked.to_string())));
        TURN.set(|| Duration::from_secs_f64(turn() / 1000.0)).expect("it is set once");
    });
    let number = usize::try_from(number).expect("it is small");
    let (_, test) = tests().nth(number).expect("there is a test with this number");
    test(&navlock_browser::browser().expect("the page has locks"));
}
