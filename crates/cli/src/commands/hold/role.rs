//! The processes of a hold: all of them are the same program with the same arguments.

use std::{
    env,
    ffi::OsString,
    io,
    process::{Command, Stdio},
};

use navlock_platform::socket::{self, Stream};

/// Which process of a hold this is. Its name is the first argument of a process that `navlock hold` itself
/// starts. The name is no option, because nobody else uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// The process that the user has started. It has no name.
    #[default]
    Asker,
    /// The process that keeps the locks.
    Keeper,
    /// The process that notices when the keeper is killed.
    Guard,
}

impl Role {
    const NAMED: [(&'static str, Self); 2] =
        [("--keeper-of-a-hold", Self::Keeper), ("--guard-of-a-hold", Self::Guard)];

    /// Takes the role away from the arguments of this process.
    pub(crate) fn take(arguments: &mut Vec<OsString>) -> Self {
        let is_first = |name: &str| arguments.get(1).is_some_and(|first| first == name);
        let named = Self::NAMED.into_iter().find(|(name, _)| is_first(name));
        named.map_or(Self::Asker, |(_, role)| {
            arguments.remove(1);
            role
        })
    }

    /// Starts a process with this role. Returns the connection to it, which is its stdout.
    pub(super) fn start(self) -> io::Result<Stream> {
        let mut arguments: Vec<_> = env::args_os().collect();
        Self::take(&mut arguments);
        let (ours, theirs) = socket::talking()?;
        let mut command = Command::new(env::current_exe()?);
        command.args(Self::NAMED.iter().filter(|(_, role)| *role == self).map(|(name, _)| name));
        command.args(&arguments[1..]).stdin(Stdio::null()).stdout(theirs);
        // It is not reaped here, but by the process that becomes its parent.
        command.spawn()?;
        Ok(ours)
    }
}
