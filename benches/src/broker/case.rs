//! The samples of a row, for each peer that took part in it.

use super::{layout::Layout, peer::Peer, row::Row};
use crate::harness::Summary;

/// A row with all peers that took part in it.
pub(super) struct Case {
    pub(super) row: Row,
    pub(super) layout: Layout,
    pub(super) entries: Vec<Entry>,
}

/// One peer in a row.
pub(super) struct Entry {
    pub(super) peer: Peer,
    /// Nanoseconds, by round. A round has several if each occurrence is timed.
    pub(super) rounds: Vec<Vec<f64>>,
}

impl Entry {
    /// The medians of the rounds.
    pub(super) fn summary(&self) -> Summary {
        Summary::of(self.rounds.iter().map(|round| quantile(round.clone(), 0.5)).collect())
    }

    /// A quantile of everything that was timed in all rounds.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        quantile(self.rounds.concat(), share)
    }
}

impl Case {
    pub(super) fn entry(&self, peer: Peer) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.peer == peer)
    }

    pub(super) fn median(&self, peer: Peer) -> Option<f64> {
        Some(self.entry(peer)?.summary().median)
    }
}

/// The least sample that is at least as large as this share of the samples.
fn quantile(mut samples: Vec<f64>, share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "there are some hundreds of samples, and the share is between 0 and 1"
    )]
    let index = (share * samples.len() as f64).ceil() as usize;
    samples[index.clamp(1, samples.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn a_quantile_is_a_sample_that_so_many_do_not_exceed() {
        let samples: Vec<f64> = (1..=200).map(f64::from).collect();
        let found = [0.0, 0.5, 0.99, 1.0].map(|share| quantile(samples.clone(), share).to_string());
        assert_eq!(found, ["1", "100", "198", "200"]);
        assert_eq!(quantile(vec![7.0], 0.5).to_string(), "7");
    }
}
