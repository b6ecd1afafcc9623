//! The goals, and whether they are reached.

use std::fmt::Write as _;

use crate::report::{collect, number};

/// A limit for a figure, and the figure.
pub(super) struct Goal {
    /// What the figure is, with its unit.
    pub(super) what: &'static str,
    pub(super) most: f64,
    pub(super) measured: f64,
}

impl Goal {
    fn outcome(&self) -> String {
        let measured = tell(self.measured);
        if self.measured <= self.most {
            format!("yes ({measured})")
        } else if self.most > 0.0 {
            let excess = ((self.measured / self.most - 1.0) * 100.0).ceil();
            format!("no ({measured}; missed by {excess} %)")
        } else {
            format!("no ({measured})")
        }
    }
}

/// The goals for a terminal.
pub(super) fn text(goals: &[Goal]) -> String {
    collect(|out| {
        goals.iter().try_for_each(|goal| {
            writeln!(out, "  goal ≤ {} {}: {}", goal.most, goal.what, goal.outcome())
        })
    })
}

/// The goals for docs/figures.md.
pub(super) fn markdown(goals: &[Goal]) -> String {
    collect(|out| {
        writeln!(out, "| | goal | reached |\n|---|---|---|")?;
        goals.iter().try_for_each(|goal| {
            writeln!(out, "| {} | ≤ {} | {} |", goal.what, goal.most, goal.outcome())
        })
    })
}

/// A figure with as many digits as goals have.
fn tell(figure: f64) -> String {
    if figure < 1.0 { format!("{figure:.2}") } else { number(figure) }
}

#[cfg(test)]
mod tests {
    use super::Goal;

    fn outcome(measured: f64, most: f64) -> String {
        Goal { what: "bytes", most, measured }.outcome()
    }

    #[test]
    fn an_outcome_says_by_how_much_a_goal_is_missed() {
        assert_eq!(outcome(2.0, 2.0), "yes (2.0)");
        assert_eq!(outcome(0.12, 0.2), "yes (0.12)");
        assert_eq!(outcome(18.0, 15.0), "no (18; missed by 20 %)");
        assert_eq!(outcome(0.0, 0.0), "yes (0.00)");
        assert_eq!(outcome(283.0, 0.0), "no (283)");
    }
}
