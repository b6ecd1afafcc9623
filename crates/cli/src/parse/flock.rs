//! Hints for users who ask for something that flock(1) has and navlock does not have.

/// What to use instead of an option, if it is an option of flock(1) at a place where it has no
/// meaning.
pub(super) fn instead_of(option: &str, subcommand: Option<String>) -> Option<String> {
    let name = option.split('=').next().unwrap_or(option);
    Some(match (name, subcommand) {
        ("-u" | "--unlock", _) => format!(
            "there is no option '{name}': a lock is held while a command runs, and is free when the \
             command ends; give the work to 'navlock run NAME COMMAND' or 'navlock run NAME -c TEXT', \
             or take the lock with 'navlock hold' and release it with 'navlock release'"
        ),
        ("--fcntl" | "--start" | "--length", _) => format!(
            "there is no option '{name}': navlock locks a name and not a file; leave the option out"
        ),
        (
            "-s"
            | "--shared"
            | "-x"
            | "-e"
            | "--exclusive"
            | "-n"
            | "--nb"
            | "--nonblock"
            | "-w"
            | "--wait"
            | "--timeout"
            | "-E"
            | "--conflict-exit-code"
            | "-o"
            | "--close"
            | "-F"
            | "--no-fork"
            | "-c"
            | "--command",
            None,
        ) => format!(
            "'{name}' is an option of 'navlock run': write 'navlock run {name} … NAME COMMAND', with a \
             name where flock(1) takes a file"
        ),
        _ => return None,
    })
}

/// What to use instead of a subcommand of this name.
pub(super) fn instead_of_word(word: &str) -> Option<String> {
    word.parse::<u32>().ok()?;
    Some(format!(
        "there is no subcommand '{word}', and a descriptor, as in 'flock {word}', cannot be locked: a lock \
         is held while a command runs; give the work to 'navlock run NAME COMMAND' or \
         'navlock run NAME -c TEXT'; for the rest of a script use 'navlock hold --while-pid $$ NAME'"
    ))
}
