//! `cargo xtask simulate`.

use crate::run::{Result, cargo, run};

const USAGE: &str = "\
usage: cargo xtask simulate [--seed N] [--histories N]

  --seed N       the one history of this seed; with --histories, as many from this seed on
  --histories N  so many histories, from that of seed 0 on (100000)";

/// The histories of a run of which nothing else is said: minutes.
const HISTORIES: u64 = 100_000;

/// Simulates the broker with clients, sockets and time that follow from seeds. A history that is wrong is made
/// small and printed.
pub(crate) fn simulate(arguments: &[&str]) -> Result {
    let (seed, histories) = parse(arguments)?;
    let test = ["test", "--package", "navlock-broker", "--lib", "--", "simulation", "--nocapture"];
    run(cargo(&test)
        .env("NAVLOCK_SIMULATE_SEED", seed.to_string())
        .env("NAVLOCK_SIMULATE_HISTORIES", histories.to_string()))
}

/// The first seed, and how many there are.
fn parse(arguments: &[&str]) -> Result<(u64, u64)> {
    let (mut seed, mut histories) = (None, None);
    for option in arguments.chunks(2) {
        let into = match option[0] {
            "--seed" => &mut seed,
            "--histories" => &mut histories,
            other => return Err(format!("unknown option {other}\n{USAGE}")),
        };
        let number = option.get(1).and_then(|number| number.parse().ok());
        *into = Some(number.ok_or_else(|| format!("{} needs a number\n{USAGE}", option[0]))?);
    }
    let default = if seed.is_some() { 1 } else { HISTORIES };
    Ok((seed.unwrap_or(0), histories.unwrap_or(default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_history_unless_more_are_asked_for_and_a_wrong_option_is_named() {
        assert_eq!(parse(&[]), Ok((0, HISTORIES)));
        assert_eq!(parse(&["--seed", "7"]), Ok((7, 1)));
        assert_eq!(parse(&["--histories", "9", "--seed", "7"]), Ok((7, 9)));
        for wrong in [&["--seed"][..], &["--histories", "few"], &["--hours", "1"]] {
            let said = parse(wrong).expect_err("it is wrong");
            assert!(said.contains(wrong[0]), "{said}");
        }
    }
}
