//! The variables that tell a command of the locks inside which it runs.

use std::{env, process::Command};

use navlock::{INSIDE_VARIABLE, LockGuard, ResourceName, surrounding, told_to_command};

/// The longest variable by which the command is told its locks, in bytes. Systems refuse to start a
/// command with a single variable of about 128 KiB.
const LONGEST: usize = 32 << 10;

/// Tells the command that it runs inside these locks, the names of which were given in this order.
pub(super) fn set(command: &mut Command, names: &[ResourceName], guards: &[LockGuard]) {
    if names.is_empty() {
        // The command runs inside the locks around this process, and no others.
        return;
    }
    // The tokens are in the order in which the names were given, which is not the order of the
    // locks.
    let at = |name| guards.binary_search_by(|guard| guard.name().cmp(name));
    let held: Vec<_> = names.iter().filter_map(|name| guards.get(at(name).ok()?)).collect();
    let fences: Vec<_> = held.iter().map(|guard| guard.fencing_token().to_string()).collect();
    let modes: Vec<_> = held.iter().map(|guard| guard.mode().as_str()).collect();
    // If all are held in one mode, the variable is one word.
    let is_one = modes.iter().all(|mode| *mode == modes[0]);
    command.env("NAVLOCK_MODE", if is_one { modes[0].to_owned() } else { modes.join("\n") });
    command.env(INSIDE_VARIABLE, told_to_command(guards.iter().map(LockGuard::id)));
    let own = [("NAVLOCK_NAME", told(names)), ("NAVLOCK_FENCE", Some(fences.join("\n")))];
    for (variable, own) in own {
        let is_inside = !surrounding().is_empty();
        let value = own.and_then(|own| {
            // The locks around this process come first.
            if is_inside { Some(env::var(variable).ok()? + "\n" + &own) } else { Some(own) }
        });
        match value.filter(|value| value.len() <= LONGEST) {
            Some(value) => command.env(variable, value),
            // What the variable says of the locks around this process is not the whole.
            None => command.env_remove(variable),
        };
    }
}

/// The names in the form in which the command is told them; `None` if they cannot be told.
fn told(names: &[ResourceName]) -> Option<String> {
    // The environment has no room for names that are not text, or that are too long.
    let texts: Vec<_> = names.iter().map(ResourceName::as_str).collect::<Option<_>>()?;
    let text = texts.join("\n");
    let is_clear = texts.len() == 1 || !texts.iter().any(|text| text.contains('\n'));
    (is_clear && text.len() <= LONGEST && !text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<ResourceName> {
        names.iter().map(|&name| name.try_into().unwrap()).collect()
    }

    #[test]
    fn a_command_is_told_names_that_it_can_tell_apart() {
        assert_eq!(told(&names(&["b", "a"])).as_deref(), Some("b\na"));
        assert_eq!(told(&names(&["a\nb"])).as_deref(), Some("a\nb"));
        assert_eq!(told(&names(&["a\nb", "c"])), None);
        assert_eq!(told(&names(&["a\0b"])), None);
        assert_eq!(told(&names(&[&"a".repeat(20_000), &"b".repeat(20_000)])), None);
        assert_eq!(told(&[ResourceName::from_utf16(&[0xD800]).unwrap()]), None);
    }
}
