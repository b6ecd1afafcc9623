//! What clients say, heard by the daemon.

#![no_main]

#[path = "../../crates/wire/tests/fuzz/property.rs"]
mod property;

libfuzzer_sys::fuzz_target!(|input: &[u8]| property::holds::<navlock_wire::Sent>(input));
