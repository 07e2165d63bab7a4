//! The fused forms on the host: positions become places a block at a time, then the table is read or added to.

use crate::error::Result;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::compiled_for_each_set;

/// How many positions are converted at a time: their places stay in the first-level cache.
pub(crate) const BLOCK: usize = 256;

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// An index into a table, in as many bits as it needs.
pub(crate) trait Place: Copy + Default + PartialEq {
    /// The index.
    fn get(self) -> usize;

    /// The next place where `step` says so, else this one.
    fn after(self, step: bool) -> Self;
}

macro_rules! places {
    ($($bits:ident)*) => {$(
        impl Place for $bits {
            #[inline(always)]
            fn get(self) -> usize {
                self as usize
            }

            #[inline(always)]
            fn after(self, step: bool) -> Self {
                self + $bits::from(step)
            }
        }
    )*};
}
places!(u32 u64);

/// `position` for sizes up to 2^24, whose last place is a float: one clamp does for both.
#[inline(always)]
pub(crate) fn position(p: f32, size: usize) -> u32 {
    let last = (size - 1) as f32;
    let held = if p > 0.0 { p } else { 0.0 }; // NaN too
    let held = if held < last { held } else { last };
    // SAFETY: `held` is no NaN and lies in 0 ..= 2^24.
    let place = unsafe { held.to_int_unchecked::<i32>() };
    place as u32
}

/// `position` for any size: the conversion saturates, and takes NaN to 0.
#[inline(always)]
fn position_in_large(p: f32, size: usize) -> u64 {
    (p as u64).min(size as u64 - 1)
}

/// Whether [`position`] does.
fn is_small(size: usize) -> bool {
    size <= 1 << 24
}

/// `table[position(p)]` for every position; the table has at least one entry.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(crate) fn gather(table: &[f32], positions: &[f32], out: &mut [f32]) -> Result<()> {
    let set = runtime::instruction_set();
    let small = is_small(table.len());
    let length = piece(out.len(), GRAIN, BLOCK);
    if length >= out.len() {
        gather_here(set, table, positions, out, small);
        return Ok(());
    }
    let pieces = positions.chunks(length).zip(out.chunks_mut(length));
    parallel_each(pieces, |(positions, out)| {
        gather_here(set, table, positions, out, small);
    })
}

compiled_for_each_set! {
    fn gather_here(table: &[f32], positions: &[f32], out: &mut [f32], small: bool) {
        for (positions, out) in positions.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
            // SAFETY: a position is below the size it is made for.
            unsafe {
                if small {
                    read(table, positions.iter().map(|&p| position(p, table.len())), out);
                } else {
                    read(table, positions.iter().map(|&p| position_in_large(p, table.len())), out);
                }
            }
        }
    }
}

/// The entries at up to a block of places.
///
/// # Safety
/// Every place is below `table.len()`.
#[inline(always)]
unsafe fn read<P: Place>(table: &[f32], places: impl Iterator<Item = P>, out: &mut [f32]) {
    let mut block = [P::default(); BLOCK];
    for (slot, place) in block.iter_mut().zip(places) {
        *slot = place;
    }
    for (out, place) in out.iter_mut().zip(&block) {
        // SAFETY: the caller's promise.
        *out = unsafe { *table.get_unchecked(place.get()) };
    }
}

/// Adds each value at its position, in order; there is at least one sum. One thread: the order is fixed.
pub(crate) fn scatter_add(positions: &[f32], values: &[f32], sums: &mut [f32]) {
    let small = is_small(sums.len());
    scatter_add_here(runtime::instruction_set(), positions, values, sums, small);
}

compiled_for_each_set! {
    fn scatter_add_here(positions: &[f32], values: &[f32], sums: &mut [f32], small: bool) {
        let size = sums.len();
        let (mut places, mut far) = ([0; BLOCK], [0; BLOCK]);
        for (positions, values) in positions.chunks(BLOCK).zip(values.chunks(BLOCK)) {
            // SAFETY: a position is below the size it is made for.
            unsafe {
                if small {
                    for (place, &p) in places.iter_mut().zip(positions) {
                        *place = position(p, size);
                    }
                    add_in_order(&places, values, sums);
                } else {
                    for (place, &p) in far.iter_mut().zip(positions) {
                        *place = position_in_large(p, size);
                    }
                    add_in_order(&far, values, sums);
                }
            }
        }
    }
}

/// Sums by place.
pub(crate) trait Sums {
    /// One of them, or a term of it.
    type Sum: Copy;

    /// The sum at a place.
    ///
    /// # Safety
    /// The sums hold that place.
    unsafe fn at(&mut self, place: usize) -> &mut Self::Sum;

    /// Adds one more term. By reference: the compiler passes two floats by value as one integer, even inlined.
    fn add(sum: &mut Self::Sum, term: &Self::Sum);
}

impl Sums for [f32] {
    type Sum = f32;

    #[inline(always)]
    unsafe fn at(&mut self, place: usize) -> &mut f32 {
        // SAFETY: the caller's promise.
        unsafe { self.get_unchecked_mut(place) }
    }

    #[inline(always)]
    fn add(sum: &mut f32, term: &f32) {
        *sum += term;
    }
}

/// From this many repeated places in a block on they are added up in a register: below, leaving it costs more than
/// waiting for memory.
const MANY: u32 = BLOCK as u32 * 13 / 16;

/// Whether the places of a block mostly repeat the one before, as those of sorted positions do.
#[inline(always)]
pub(crate) fn mostly_repeated<P: Place>(places: &[P; BLOCK]) -> bool {
    let mut repeated = 0;
    for k in 1..BLOCK {
        repeated += u32::from(places[k - 1] == places[k]);
    }
    repeated >= MANY
}

/// Adds each term, of up to a block, at its place, in order.
///
/// # Safety
/// The sums hold every place.
#[inline(always)]
pub(crate) unsafe fn add_in_order<P: Place, S: Sums + ?Sized>(
    places: &[P; BLOCK],
    terms: &[S::Sum],
    sums: &mut S,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match mostly_repeated(places) {
            false => add_each(&places[..terms.len()], terms, sums),
            true => add_runs(&places[..terms.len()], terms, sums),
        }
    }
}

/// [`add_in_order`] in memory.
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn add_each<P: Place, S: Sums + ?Sized>(
    places: &[P],
    terms: &[S::Sum],
    sums: &mut S,
) {
    for (place, term) in places.iter().zip(terms) {
        // SAFETY: the caller's promise.
        S::add(unsafe { sums.at(place.get()) }, term);
    }
}

/// [`add_in_order`] in a register.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn add_runs<P: Place, S: Sums + ?Sized>(places: &[P], terms: &[S::Sum], sums: &mut S) {
    let Some(&first) = places.first() else { return };
    // SAFETY: the caller's promise.
    unsafe {
        let mut run = Run::new(first, sums);
        for (&place, term) in places.iter().zip(terms) {
            run.add(place, term, sums);
        }
        run.end(sums);
    }
}

/// The sum of the place that was added at last: it is kept here while that place stays.
pub(crate) struct Run<P, S: Sums + ?Sized> {
    place: P,
    sum: S::Sum,
}

impl<P: Place, S: Sums + ?Sized> Run<P, S> {
    /// # Safety
    /// The sums hold the place.
    #[inline(always)]
    pub(crate) unsafe fn new(place: P, sums: &mut S) -> Self {
        // SAFETY: the caller's promise.
        let sum = unsafe { *sums.at(place.get()) };
        Run { place, sum }
    }

    /// Adds a term at a place.
    ///
    /// # Safety
    /// The sums, which are always the same, hold the place.
    #[inline(always)]
    pub(crate) unsafe fn add(&mut self, place: P, term: &S::Sum, sums: &mut S) {
        if place != self.place {
            // SAFETY: the caller's promise.
            unsafe {
                *sums.at(self.place.get()) = self.sum;
                self.sum = *sums.at(place.get());
            }
            self.place = place;
        }
        S::add(&mut self.sum, term);
    }

    /// Writes the last sum.
    ///
    /// # Safety
    /// The sums are those that it began with.
    #[inline(always)]
    pub(crate) unsafe fn end(self, sums: &mut S) {
        // SAFETY: the place was held before.
        unsafe { *sums.at(self.place.get()) = self.sum };
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;

    /// What stays at a place for long is added up in a register, the rest in memory.
    #[test]
    fn sorted_and_scattered_positions_add_up_in_order() {
        let n = 10 * BLOCK + 77;
        let values: Vec<f32> = (0..n).map(|k| (k % 13) as f32 * 0.3 - 1.7).collect();
        for stay in [1, 2, 5, 6, 7, 100, 1000] {
            let positions: Vec<f32> = (0..n).map(|k| (k / stay % 37) as f32 + 0.5).collect();
            let want = reference::scatter_add_at(37, &positions, &values).unwrap();
            for &set in crate::host::InstructionSet::available() {
                let mut sums = [0.0; 37];
                runtime::with_instruction_set(set, || scatter_add(&positions, &values, &mut sums));
                assert_eq!(sums[..], want[..], "{set}, {stay} at a place");
            }
        }
    }

    /// Above 2^24 a float clamp to `size - 1` is off by one: 16777220 rounds past the end, 16777217 is never reached.
    #[test]
    fn positions_are_the_references_at_every_size() {
        let values = [
            0.0,
            -0.0,
            1e-45,
            0.99,
            2.99,
            -0.5,
            16_777_215.0,
            16_777_216.0,
            16_777_218.0,
            16_777_220.0,
            9.223_372e18,
            -9.223_372e18,
            1e30,
            -1e30,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        for p in values {
            for size in [1, 2, 3, 1000, (1 << 24) - 1, 1 << 24] {
                let want = reference::position(p.into(), size);
                assert_eq!(position(p, size).get(), want, "{p} of {size}");
                assert_eq!(position_in_large(p, size).get(), want, "{p} of {size}");
            }
            for size in [(1 << 24) + 1, 16_777_218, 16_777_220, 1 << 33] {
                let want = reference::position(p.into(), size);
                assert_eq!(position_in_large(p, size).get(), want, "{p} of {size}");
            }
        }
    }
}
