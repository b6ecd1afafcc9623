//! What a few clients do while daemons come and go.

#![no_main]

#[path = "../../crates/broker/tests/fuzz/property.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::holds(input));
