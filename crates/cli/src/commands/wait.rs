//! `navlock wait`: until a lock is free.

use std::process::ExitCode;

use navlock::this_process;

use super::{
    Context,
    acquire::{Bounds, acquire},
};
use crate::{args::WaitArgs, exit::Failure};

pub(super) fn wait(context: &Context, args: &WaitArgs) -> Result<ExitCode, Failure> {
    let bounds = Bounds::of(&args.request);
    let reach = context.connect(bounds.reaching())?;
    let locks = context.lock_manager(&reach);
    let mut info = this_process();
    "navlock wait".clone_into(&mut info.command);
    args.request.describe(&mut info)?;
    locks.describe(&info);
    let mut names: Vec<_> = args.request.locks.iter().chain(&args.names).cloned().collect();
    names.sort();
    names.dedup();
    drop(acquire(context, &locks, &names, &args.request, bounds, false)?);
    Ok(ExitCode::SUCCESS)
}
