//! What somebody is told who asks for what flock(1) has and navlock has not.

/// What there is instead of an option, if it is one of flock(1) that stands where it has no meaning.
pub(super) fn instead_of(option: &str, subcommand: Option<String>) -> Option<String> {
    let name = option.split('=').next().unwrap_or(option);
    Some(match (name, subcommand) {
        ("-u" | "--unlock", _) => format!(
            "there is no option '{name}': a lock is held while a command runs, and is free when that \
             ends; give what is to be done under it to 'navlock run NAME COMMAND', or to \
             'navlock run NAME -c TEXT', or take the lock with 'navlock hold' and give it back with \
             'navlock release'"
        ),
        ("--fcntl" | "--start" | "--length", _) => format!(
            "there is no option '{name}': what is locked is a name and no file; leave it out"
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
            "'{name}' is an option of 'navlock run': where flock(1) is given a file, write \
             'navlock run {name} … NAME COMMAND'"
        ),
        _ => return None,
    })
}

/// What there is instead of a subcommand of this name.
pub(super) fn instead_of_word(word: &str) -> Option<String> {
    word.parse::<u32>().ok()?;
    Some(format!(
        "there is no subcommand '{word}', and a descriptor, like 'flock {word}' takes, cannot be locked: \
         a lock is held while a command runs; give what is to be done under it to \
         'navlock run NAME COMMAND', or to 'navlock run NAME -c TEXT'; for the rest of a script there is \
         'navlock hold --while-pid $$ NAME'"
    ))
}
