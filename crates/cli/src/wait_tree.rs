//! How a tree of waiters is drawn: the branches before a row, and how the row is blocked.

use navlock::look::{Row, Why};

/// How many levels are drawn. Deeper rows are drawn at the last level.
const DEEPEST: usize = 24;

/// How a request is blocked, in a word.
pub(crate) fn word(why: Why) -> &'static str {
    match why {
        Why::Held => "hard",
        Why::Ahead => "soft",
        Why::Inside => "inside",
        _ => "perhaps inside",
    }
}

/// The branches before each row of a tree, which show what the row is below.
pub(crate) fn branches(rows: &[Row<'_>]) -> Vec<String> {
    // The loop goes from the last row up. This has the levels at which another row follows.
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
