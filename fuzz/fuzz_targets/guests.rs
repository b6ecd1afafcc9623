//! What one user sends to the broker for several users.

#![no_main]

#[path = "../../crates/broker/tests/guests/property.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::holds(input));
