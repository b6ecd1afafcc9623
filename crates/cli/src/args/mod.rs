//! The arguments that several subcommands take. The other ones stand beside the work of their subcommand.

mod common;
mod on_lost;
mod request;
pub(crate) mod settings;
pub(crate) mod values;

pub(crate) use self::{
    common::{BUCKET, Common, SOCKET, STORE},
    on_lost::OnLost,
    request::{RequestArgs, TIMEOUT, Take},
    settings::SettingsArgs,
};
