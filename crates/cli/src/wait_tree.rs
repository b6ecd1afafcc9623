//! How a tree of those who wait is drawn: what stands before a row, and how it is blocked.

use navlock::look::{Row, Why};

/// So many levels are drawn; what is deeper is drawn at the last of them.
const DEEPEST: usize = 24;

/// How somebody is held up, in a word.
pub(crate) fn word(why: Why) -> &'static str {
    match why {
        Why::Held => "hard",
        Why::Ahead => "soft",
        Why::Inside => "inside",
        _ => "perhaps inside",
    }
}

/// What is drawn before each row of a tree, to show what it is below.
pub(crate) fn branches(rows: &[Row<'_>]) -> Vec<String> {
    // From the last one up: at which levels another one follows.
    let mut follows: Vec<bool> = Vec::new();
    let mut branches = Vec::with_capacity(rows.len());
    for row in rows.iter().rev() {
        let mut branch = String::new();
        if row.depth > 0 {
            let shown = row.depth.min(DEEPEST);
            for level in 1..shown {
                branch +=
                    if follows.get(level).copied().unwrap_or(false) { "│  " } else { "   " };
            }
            let is_last = !follows.get(row.depth).copied().unwrap_or(false);
            branch += if is_last { "└─ " } else { "├─ " };
        }
        branches.push(branch);
        follows.resize(row.depth + 1, false);
        follows[row.depth] = true;
    }
    branches.reverse();
    branches
}
