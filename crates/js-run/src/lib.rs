#![doc = include_str!("../../../docs/embedding.md")]
//!
//! This library is only that guide: its programs run as tests. The runtime itself is the program
//! beside this library.
