#![doc = include_str!("../../../docs/embedding.md")]
//!
//! This library is nothing but that guide: its programs are run as tests, and the runtime itself is the
//! program beside it.
