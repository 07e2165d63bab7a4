//! Step 5: the entries of cells, from wherever they are read fastest.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::ops::index::host::Place;

/// How many elements a step of the second pass takes.
pub(super) const LANES: usize = 8;

/// A table as its cells are read.
pub(super) trait Entries<P: Place> {
    /// The lower and the upper entries of some cells.
    ///
    /// # Safety
    /// Every place is one of a cell.
    unsafe fn load(&self, places: &[P; LANES]) -> ([f32; LANES], [f32; LANES]);

    /// The same in vectors.
    ///
    /// # Safety
    /// As [`load`](Entries::load), and the CPU has AVX2, or what else the implementation says.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load_wide(&self, places: &[P; LANES]) -> (__m256, __m256);
}

/// Cells of one entry, where the width is 1.
pub(super) struct Singles<'a>(pub(super) &'a [f32]);

impl<P: Place> Entries<P> for Singles<'_> {
    #[inline(always)]
    unsafe fn load(&self, places: &[P; LANES]) -> ([f32; LANES], [f32; LANES]) {
        // SAFETY: the caller's promise.
        let entries = places.map(|place| unsafe { *self.0.get_unchecked(place.get()) });
        (entries, entries)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load_wide(&self, places: &[P; LANES]) -> (__m256, __m256) {
        // SAFETY: the caller's promise; the array holds what is loaded.
        unsafe {
            let entries = _mm256_loadu_ps(self.load(places).0.as_ptr());
            (entries, entries)
        }
    }
}

/// Cells of two neighbouring entries, which one load of 8 bytes fetches.
pub(super) struct Pairs<'a>(pub(super) &'a [f32]);

#[cfg(target_arch = "x86_64")]
impl Pairs<'_> {
    /// Two cells: lower, upper, lower, upper.
    ///
    /// # Safety
    /// Both places are below the number of entries less one.
    #[inline(always)]
    unsafe fn two<P: Place>(&self, first: P, second: P) -> __m128 {
        // SAFETY: SSE2 is part of x86-64. Each load reads two neighbouring entries, which the caller promised to be
        // there; it needs no alignment.
        unsafe {
            let pair = |place: P| self.0.as_ptr().add(place.get()).cast::<f64>();
            _mm_castpd_ps(_mm_loadh_pd(_mm_load_sd(pair(first)), pair(second)))
        }
    }
}

impl<P: Place> Entries<P> for Pairs<'_> {
    #[inline(always)]
    unsafe fn load(&self, places: &[P; LANES]) -> ([f32; LANES], [f32; LANES]) {
        let (mut lower, mut upper) = ([0.0; LANES], [0.0; LANES]);
        #[cfg(target_arch = "x86_64")]
        for k in (0..LANES).step_by(4) {
            // SAFETY: the caller's promise. The stores fill four of the lanes.
            unsafe {
                let first = self.two(places[k], places[k + 1]);
                let second = self.two(places[k + 2], places[k + 3]);
                let lowers = _mm_shuffle_ps::<0b10_00_10_00>(first, second);
                let uppers = _mm_shuffle_ps::<0b11_01_11_01>(first, second);
                _mm_storeu_ps(lower[k..].as_mut_ptr(), lowers);
                _mm_storeu_ps(upper[k..].as_mut_ptr(), uppers);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        for k in 0..LANES {
            // SAFETY: the caller's promise.
            unsafe {
                lower[k] = *self.0.get_unchecked(places[k].get());
                upper[k] = *self.0.get_unchecked(places[k].get() + 1);
            }
        }
        (lower, upper)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load_wide(&self, places: &[P; LANES]) -> (__m256, __m256) {
        // SAFETY: the caller's promise.
        unsafe {
            let four = |a: usize, b: usize| {
                let (low, high) = (
                    self.two(places[a], places[a + 1]),
                    self.two(places[b], places[b + 1]),
                );
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
            };
            let (first, second) = (four(0, 4), four(2, 6));
            (
                _mm256_shuffle_ps::<0b10_00_10_00>(first, second),
                _mm256_shuffle_ps::<0b11_01_11_01>(first, second),
            )
        }
    }
}

/// A table of 2 to 8 entries in registers of AVX2: reading is a permutation. Sixteen would take two and a choice, which
/// lose to [`Pairs`].
#[cfg(target_arch = "x86_64")]
pub(super) struct Eight<'a> {
    table: Pairs<'a>,
    lower: __m256,
    upper: __m256,
}

#[cfg(target_arch = "x86_64")]
impl<'a> Eight<'a> {
    /// # Safety
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) unsafe fn new(table: &'a [f32]) -> Self {
        // SAFETY: the arrays hold what is loaded.
        unsafe {
            Eight {
                table: Pairs(table),
                lower: _mm256_loadu_ps(padded::<8>(table).as_ptr()),
                upper: _mm256_loadu_ps(padded::<8>(&table[1..]).as_ptr()),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Entries<u32> for Eight<'_> {
    #[inline(always)]
    unsafe fn load(&self, places: &[u32; LANES]) -> ([f32; LANES], [f32; LANES]) {
        // SAFETY: the caller's promise.
        unsafe { self.table.load(places) }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load_wide(&self, places: &[u32; LANES]) -> (__m256, __m256) {
        // SAFETY: the places are eight of 32 bits.
        let places = unsafe { _mm256_loadu_si256(places.as_ptr().cast()) };
        let pick = |entries| _mm256_permutevar8x32_ps(entries, places);
        (pick(self.lower), pick(self.upper))
    }
}

/// A table of 2 to 32 entries in registers of AVX-512.
#[cfg(target_arch = "x86_64")]
pub(super) struct ThirtyTwo<'a> {
    table: Pairs<'a>,
    lower: [__m512; 2],
    upper: [__m512; 2],
}

#[cfg(target_arch = "x86_64")]
impl<'a> ThirtyTwo<'a> {
    /// # Safety
    /// The CPU has AVX-512F.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) unsafe fn new(table: &'a [f32]) -> Self {
        let split = |entries: &[f32]| {
            let entries = padded::<32>(entries);
            // SAFETY: the array holds what is loaded.
            [0, 16].map(|from| unsafe { _mm512_loadu_ps(entries[from..].as_ptr()) })
        };
        ThirtyTwo {
            table: Pairs(table),
            lower: split(table),
            upper: split(&table[1..]),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Entries<u32> for ThirtyTwo<'_> {
    #[inline(always)]
    unsafe fn load(&self, places: &[u32; LANES]) -> ([f32; LANES], [f32; LANES]) {
        // SAFETY: the caller's promise.
        unsafe { self.table.load(places) }
    }

    /// Needs AVX-512F.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn load_wide(&self, places: &[u32; LANES]) -> (__m256, __m256) {
        // SAFETY: the places are eight of 32 bits.
        let places = unsafe { _mm256_loadu_si256(places.as_ptr().cast()) };
        let places = _mm512_castsi256_si512(places);
        let pick = |[first, second]: [__m512; 2]| {
            _mm512_castps512_ps256(_mm512_permutex2var_ps(first, places, second))
        };
        (pick(self.lower), pick(self.upper))
    }
}

/// At most `N` entries, and zeros.
#[cfg(target_arch = "x86_64")]
fn padded<const N: usize>(entries: &[f32]) -> [f32; N] {
    let mut padded = [0.0; N];
    padded[..entries.len()].copy_from_slice(entries);
    padded
}
