//! What flows to the entries of a table.
//!
//! The contract's table gradient is the sum of two scatters: of `g0` to the lower entries of the cells and of `gm` to
//! the upper ones. Both sums of a cell stand side by side, so that one 8-byte read, addition and write does both, and
//! each is added up in the order of the coordinates, starting from +0.0. `at(k)` holds what flows to entry `k` as a
//! lower and to entry `k + 1` as an upper one. A sum never is -0.0, so adding a zero changes none. That leaves the end
//! of the axis without a case of its own: its upper entry is the last one itself, to which `gm` brings a zero, or a NaN
//! that `g0` brings as well, so what stands there for the entry after it is left out.

use crate::error::{Result, reserved};
use crate::ops::index::host::Sums;
use crate::simd::{InstructionSet, compiled_for_each_set};

/// Pairs of sums by entry.
pub(super) trait PairedSums: Sums<Sum = [f32; 2]> {
    /// Whether there is a pair for each of `entries`.
    fn hold(&self, entries: usize) -> bool;
}

/// A pair for every entry.
pub(super) struct Dense(Vec<[f32; 2]>);

impl Dense {
    pub(super) fn new(op: &'static str, entries: usize) -> Result<Dense> {
        let mut sums = reserved(op, entries)?;
        sums.resize(entries, [0.0; 2]);
        Ok(Dense(sums))
    }

    pub(super) fn pairs(&mut self) -> &mut [[f32; 2]] {
        &mut self.0
    }

    /// Adds the two sums of each entry; layers are `width` long.
    pub(super) fn finish(self, set: InstructionSet, width: usize, out: &mut [f32]) {
        for (out, sums) in out.chunks_mut(width).zip(self.0.chunks(width)) {
            add_up(set, sums, out);
        }
    }
}

compiled_for_each_set! {
    fn add_up(sums: &[[f32; 2]], out: &mut [f32]) {
        out[0] = sums[0][0] + 0.0; // as the sum of uppers would be added: no sum is -0.0
        for (out, pair) in out[1..].iter_mut().zip(sums.windows(2)) {
            *out = pair[1][0] + pair[0][1];
        }
    }
}

/// Those of [`Dense`]: as a slice, whose place the compiler keeps in a register.
impl PairedSums for [[f32; 2]] {
    #[inline(always)]
    fn hold(&self, entries: usize) -> bool {
        self.len() == entries
    }
}

impl Sums for [[f32; 2]] {
    type Sum = [f32; 2];

    #[inline(always)]
    unsafe fn at(&mut self, entry: usize) -> &mut [f32; 2] {
        // SAFETY: the caller's promise.
        unsafe { self.get_unchecked_mut(entry) }
    }

    #[inline(always)]
    fn add(sum: &mut [f32; 2], term: &[f32; 2]) {
        *sum = [sum[0] + term[0], sum[1] + term[1]];
    }
}

/// Pairs for the entries that occur, of which there are few: a hash table with linear probing.
pub(super) struct Sparse {
    /// The entries and their sums, as they came.
    pairs: Vec<(usize, [f32; 2])>,
    /// For each hash 1 + the place of a pair, or 0; at most half are used.
    heads: Vec<u32>,
}

impl Sparse {
    /// For at most `n` different entries, fewer than 2^32.
    pub(super) fn new(op: &'static str, n: usize) -> Result<Sparse> {
        let pairs = reserved(op, n)?;
        let slots = (2 * n).next_power_of_two();
        let mut heads = reserved(op, slots)?;
        heads.resize(slots, 0);
        Ok(Sparse { pairs, heads })
    }

    /// Adds the two sums of each entry; layers are `width` long.
    pub(super) fn finish(self, width: usize, out: &mut [f32]) {
        out.fill(0.0);
        for (entry, [lower, upper]) in self.pairs {
            out[entry] += lower;
            if !(entry + 1).is_multiple_of(width) {
                out[entry + 1] += upper;
            }
        }
    }
}

impl PairedSums for Sparse {
    #[inline(always)]
    fn hold(&self, _: usize) -> bool {
        true
    }
}

impl Sums for Sparse {
    type Sum = [f32; 2];

    #[inline(always)]
    unsafe fn at(&mut self, entry: usize) -> &mut [f32; 2] {
        // Fibonacci hashing: neighbouring entries, the usual case, go far apart.
        let mask = self.heads.len() - 1;
        let mut slot = ((entry as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            match self.heads[slot] as usize {
                0 => {
                    self.pairs.push((entry, [0.0; 2]));
                    self.heads[slot] = self.pairs.len() as u32;
                    let last = self.pairs.len() - 1;
                    return &mut self.pairs[last].1;
                }
                place if self.pairs[place - 1].0 == entry => return &mut self.pairs[place - 1].1,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    #[inline(always)]
    fn add(sum: &mut [f32; 2], term: &[f32; 2]) {
        *sum = [sum[0] + term[0], sum[1] + term[1]];
    }
}
