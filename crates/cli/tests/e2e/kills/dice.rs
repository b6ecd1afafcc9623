//! Numbers by chance.

use std::{thread, time::Duration};

/// Numbers that look random and are the same in each run with the same seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    pub(super) fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// Lets time pass, at most so many milliseconds.
    pub(super) fn pass(&mut self, most: usize) {
        // Nothing is waited for: processes are killed at random moments.
        thread::sleep(Duration::from_micros(self.next() % (most as u64 * 1000)));
    }
}
