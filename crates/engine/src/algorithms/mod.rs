//! The algorithms of the specification, one file and one function each.

mod abort;
mod process;
mod release;
pub(crate) mod request;
pub(crate) mod snapshot;
mod terminate;

#[cfg(test)]
mod tests;
