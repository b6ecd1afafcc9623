//! QuickJS-NG.

use std::{
    path::Path,
    task::{Context, Poll},
};

use super::{Failure, Setup, Vm};

/// A context of QuickJS-NG.
pub(crate) struct QuickJs;

impl Vm for QuickJs {
    const ENGINE: &'static str = "QuickJS-NG";

    fn new(_setup: Setup) -> Result<Self, Failure> {
        Err(Failure::Engine("QuickJS-NG is not here yet".to_owned()))
    }

    fn import(&mut self, _file: &Path) -> Result<(), Failure> {
        Ok(())
    }

    fn is_importing(&self) -> bool {
        false
    }

    fn deliver(&mut self, _event: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn poll_locks(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn run_lock_task(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn is_waiting(&self) -> bool {
        false
    }
}
