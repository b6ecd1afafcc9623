//! The variables that tell a command of the locks inside which it runs.

use std::{env, process::Command};

use navlock::{INSIDE_VARIABLE, LockGuard, Place, ResourceName, surrounding, told_to_command};

use crate::{
    args::{SOCKET, STORE},
    commands::named::in_order_of,
};

/// The longest variable by which the command is told its locks, in bytes. Systems refuse to start a
/// command with a single variable of about 128 KiB.
const LONGEST: usize = 32 << 10;

const NAME: &str = "NAVLOCK_NAME";
const MODE: &str = "NAVLOCK_MODE";
const FENCE: &str = "NAVLOCK_FENCE";

/// The variable by which a program uses the machine's broker.
const SYSTEM: &str = "NAVLOCK_SYSTEM";

/// Has the command use the broker of its locks, if it would not find it by their bucket.
pub(super) fn set_place(command: &mut Command, bucket: &str, place: &Place) {
    if Place::of_bucket(bucket).as_ref() == Ok(place) {
        return;
    }
    command.env_remove(STORE);
    if place.is_of_system() {
        command.env_remove(SOCKET);
        if env::var_os(SYSTEM).is_none_or(|value| value.is_empty() || value == "0") {
            command.env(SYSTEM, "1");
        }
    } else {
        command.env(SOCKET, place.socket());
    }
}

/// Tells the command that it runs inside these locks, the names of which were given in this order.
pub(super) fn set(command: &mut Command, names: &[ResourceName], guards: &[LockGuard]) {
    if names.is_empty() {
        // The command runs inside the locks around this process, and no others.
        return;
    }
    let held = in_order_of(names, guards);
    let fences = held.iter().map(|guard| guard.fencing_token().to_string()).collect();
    let modes = held.iter().map(|guard| guard.mode().to_string()).collect();
    command.env(INSIDE_VARIABLE, told_to_command(guards.iter().map(LockGuard::id)));
    for (variable, own) in [(NAME, told(names)), (MODE, Some(modes)), (FENCE, Some(fences))] {
        match own.and_then(|own| with_outer(variable, own)) {
            Some(value) => command.env(variable, value),
            // What the variable says of the locks around this process is not the whole.
            None => command.env_remove(variable),
        };
    }
}

/// A line for each lock around this process, and then these lines; `None` if that cannot be told.
fn with_outer(variable: &str, own: Vec<String>) -> Option<String> {
    let mut lines = if surrounding().is_empty() { Vec::new() } else { outer(variable)? };
    lines.extend(own);
    // If all are held in one mode, the variable is one word.
    if variable == MODE && lines.windows(2).all(|two| two[0] == two[1]) {
        lines.truncate(1);
    }
    Some(lines.join("\n")).filter(|value| value.len() <= LONGEST)
}

/// What the variable says of the locks around this process, a line for each.
fn outer(variable: &str) -> Option<Vec<String>> {
    let count = env::var(FENCE).ok()?.lines().count();
    let mut lines: Vec<_> = env::var(variable).ok()?.lines().map(str::to_owned).collect();
    if variable == MODE && lines.len() == 1 {
        lines = vec![lines[0].clone(); count];
    }
    (lines.len() == count).then_some(lines)
}

/// The names in the form in which the command is told them; `None` if they cannot be told.
fn told(names: &[ResourceName]) -> Option<Vec<String>> {
    // The environment has no room for names that are not text.
    let texts: Vec<_> =
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    let is_one = texts.len() == 1 && surrounding().is_empty();
    let is_clear = is_one || !texts.iter().any(|text| text.contains('\n'));
    (is_clear && !texts.iter().any(|text| text.contains('\0'))).then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(names: &[&str]) -> Option<String> {
        let names: Vec<_> = names.iter().map(|&name| name.try_into().unwrap()).collect();
        with_outer(NAME, told(&names)?)
    }

    #[test]
    fn a_command_is_told_names_that_it_can_tell_apart() {
        assert_eq!(name(&["b", "a"]).as_deref(), Some("b\na"));
        assert_eq!(name(&["a\nb"]).as_deref(), Some("a\nb"));
        assert_eq!(name(&["a\nb", "c"]), None);
        assert_eq!(name(&["a\0b"]), None);
        assert_eq!(name(&[&"a".repeat(20_000), &"b".repeat(20_000)]), None);
        assert_eq!(told(&[ResourceName::from_utf16(&[0xD800]).unwrap()]), None);
    }

    #[test]
    fn one_mode_is_one_word() {
        let modes = |modes: &[&str]| with_outer(MODE, modes.iter().map(|&it| it.into()).collect());
        assert_eq!(modes(&["shared", "shared"]).as_deref(), Some("shared"));
        assert_eq!(modes(&["shared", "exclusive"]).as_deref(), Some("shared\nexclusive"));
    }
}
