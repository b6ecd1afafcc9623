//! Numbers by chance.

/// Numbers that look random and are the same in each run with the same seed.
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `of` times.
    pub(crate) fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let length = u64::try_from(from.len()).ok()?;
        (length > 0).then(|| usize::try_from(self.below(length)).ok())?.map(|nth| &from[nth])
    }
}
