//! `navlock hold`, `release` and `extend`: locks for a script that needs them over many commands.
//!
//! There are two processes. The process that the user starts is the *asker*, which ends as soon as
//! the locks are granted. The asker starts the *keeper*, the same program with the same arguments,
//! which holds the locks like any client. The two have one connection. When the connection ends,
//! each of them notices that the other is gone:
//!
//! 1. The keeper takes the locks. Meanwhile its messages for people go where the asker's messages
//!    go.
//! 2. The keeper leaves the asker's terminal and streams, and sends the text that has to be written:
//!    the id and the tokens.
//! 3. The asker writes this text, tells the keeper to go on by itself, and ends when the keeper does so.
//!    If the asker cannot do that, or is gone, nobody knows the id, and the keeper ends with all that it
//!    has.
//!
//! With `--on-lost term` or `kill` there is a third process, the *guard*, which waits for the end of the keeper.

mod args;
mod asker;
mod guard;
mod keeper;
mod process;
mod question;
mod release;
mod role;
mod socket;
mod timer;

use std::process::ExitCode;

pub(super) use self::release::{extend, release};
pub(crate) use self::{
    args::HoldArgs,
    release::{ExtendArgs, ReleaseArgs},
    role::Role,
};
use super::Context;
use crate::exit::{Failure, USAGE};

pub(super) fn hold(context: &Context, args: &HoldArgs) -> Result<ExitCode, Failure> {
    if args.while_pid.is_none() && args.ttl.is_none() {
        let message = "say until when: '--while-pid $$' until this script has ended, or '--ttl SECS', \
                       or both; see 'navlock hold --help'";
        return Err(Failure::new(USAGE, message));
    }
    match context.role {
        Role::Asker => asker::ask(args),
        Role::Keeper => keeper::keep(context, args),
        Role::Guard => guard::guard(args),
    }
}
