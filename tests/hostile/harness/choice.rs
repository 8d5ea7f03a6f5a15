//! Where test programs and mutations take their decisions from: a seeded generator, or the bytes of a fuzzer.

/// A source of decisions.
pub trait Choice {
    /// 64 bits.
    fn bits(&mut self) -> u64;

    /// A number below `n`; 0 for 0.
    fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// An element of a slice that is not empty.
    fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// A seeded generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Choice for Seeded {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Decisions read from bytes, zeros behind the end.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// Whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, n: usize) -> u64 {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))
    }
}

impl Choice for Bytes<'_> {
    fn bits(&mut self) -> u64 {
        self.take(8)
    }

    fn below(&mut self, n: usize) -> usize {
        // As few bytes as the number needs, so that a fuzzer's small changes stay small.
        match n {
            0 | 1 => 0,
            2..=0x100 => self.take(1) as usize % n,
            0x101..=0x1_0000 => self.take(2) as usize % n,
            _ => (self.take(8) % n as u64) as usize,
        }
    }
}
