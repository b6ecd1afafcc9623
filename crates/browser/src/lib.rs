#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod backend;
mod names;
#[allow(unsafe_code, reason = "what wasm-bindgen makes of a binding is")]
mod native;
mod page;

pub use crate::backend::{BrowserReach, browser};
