//! `cargo xtask simulate`.

use crate::run::{Result, cargo, run};

const USAGE: &str = "\
usage: cargo xtask simulate [--seed N] [--histories N] [--hours H]

  --seed N       the one history of this seed; with --histories, as many from this seed on
  --histories N  so many histories, from that of seed 0 on (100000)
  --hours H      histories for so many hours; with --seed, from this seed on";

/// The histories of a run of which nothing else is said: minutes.
const HISTORIES: u64 = 100_000;

/// Simulates the broker with clients, sockets and time that follow from seeds. A history that is wrong is made
/// small and printed.
pub(crate) fn simulate(arguments: &[&str]) -> Result {
    let Asked { seed, histories, hours } = parse(arguments)?;
    let test = ["test", "--package", "navlock-broker", "--lib", "--", "simulation", "--nocapture"];
    run(cargo(&test)
        .env("NAVLOCK_SIMULATE_SEED", seed.to_string())
        .env("NAVLOCK_SIMULATE_HISTORIES", histories.to_string())
        .env("NAVLOCK_SIMULATE_HOURS", hours.to_string()))
}

/// The first seed, how many there are, and the hours after which no other one begins.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    seed: u64,
    histories: u64,
    hours: u64,
}

fn parse(arguments: &[&str]) -> Result<Asked> {
    let (mut seed, mut histories, mut hours) = (None, None, None);
    for option in arguments.chunks(2) {
        let into = match option[0] {
            "--seed" => &mut seed,
            "--histories" => &mut histories,
            "--hours" => &mut hours,
            other => return Err(format!("unknown option {other}\n{USAGE}")),
        };
        let number = option.get(1).and_then(|number| number.parse().ok());
        *into = Some(number.ok_or_else(|| format!("{} needs a number\n{USAGE}", option[0]))?);
    }
    let default = match (seed, hours) {
        (_, Some(_)) => u64::MAX,
        (Some(_), None) => 1,
        (None, None) => HISTORIES,
    };
    let (seed, histories) = (seed.unwrap_or(0), histories.unwrap_or(default));
    Ok(Asked { seed, histories, hours: hours.unwrap_or(u64::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_history_unless_more_are_asked_for_and_a_wrong_option_is_named() {
        let asked = |seed, histories, hours| Ok(Asked { seed, histories, hours });
        assert_eq!(parse(&[]), asked(0, HISTORIES, u64::MAX));
        assert_eq!(parse(&["--seed", "7"]), asked(7, 1, u64::MAX));
        assert_eq!(parse(&["--histories", "9", "--seed", "7"]), asked(7, 9, u64::MAX));
        assert_eq!(parse(&["--hours", "8", "--seed", "7"]), asked(7, u64::MAX, 8));
        for wrong in [&["--seed"][..], &["--histories", "few"], &["--days", "1"]] {
            let said = parse(wrong).expect_err("it is wrong");
            assert!(said.contains(wrong[0]), "{said}");
        }
    }
}
