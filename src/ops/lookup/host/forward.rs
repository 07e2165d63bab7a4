//! The values.

use super::Lookup;
use super::cells::{BLOCK, Layered, Locate, Plain, interpolate};
#[cfg(target_arch = "x86_64")]
use super::entries::{Eight, ThirtyTwo};
use super::entries::{Entries, LANES, Pairs, Singles};
use crate::error::Result;
use crate::ops::index::host::Place;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::{self, InstructionSet, compiled_for_each_set};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// Results of at least this many elements, 32 MiB, do not fit the cache: they are stored past it.
pub(super) const BEYOND_CACHE: usize = 8 << 20;

/// The value at every coordinate.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(crate) fn forward(lookup: &Lookup<'_>, out: &mut [f32]) -> Result<()> {
    let set = runtime::instruction_set();
    let n = lookup.coords.len();
    if n < 2 * GRAIN {
        on_this_thread(set, lookup, out, false);
        return Ok(());
    }
    let past_cache = n >= BEYOND_CACHE;
    let length = piece(n, GRAIN, BLOCK);
    parallel_each(out.chunks_mut(length).enumerate(), |(k, out)| {
        let start = k * length;
        let part = lookup.part(start..start + out.len());
        if !past_cache {
            return on_this_thread(set, &part, out, false);
        }
        let head = out.as_ptr().align_offset(simd::ALIGNMENT).min(out.len());
        let (unaligned, aligned) = out.split_at_mut(head);
        on_this_thread(set, &part.part(0..head), unaligned, false);
        on_this_thread(set, &part.part(head..part.coords.len()), aligned, true);
    })
}

/// With `past_cache`, `out` must be aligned.
fn on_this_thread(set: InstructionSet, lookup: &Lookup<'_>, out: &mut [f32], past_cache: bool) {
    assert!(!past_cache || out.as_ptr().align_offset(simd::ALIGNMENT) == 0);
    match lookup.layers {
        None => plain(set, lookup, out, past_cache),
        Some(selectors) => layered(set, lookup, selectors, out, past_cache),
    }
}

compiled_for_each_set! {
    fn plain(lookup: &Lookup<'_>, out: &mut [f32], past_cache: bool) {
        let (table, cells, coords) = (lookup.table, Plain::new(lookup), lookup.coords);
        // SAFETY: `on_this_thread` checked the alignment, `WIDE` is what this is compiled for, and the entries are those
        // of the width.
        unsafe {
            match lookup.width {
                1 => blocks::<_, _, WIDE>(&Singles(table), cells, coords, out, past_cache),
                #[cfg(target_arch = "x86_64")]
                2..=8 if WIDE == 8 => {
                    blocks::<_, _, WIDE>(&Eight::new(table), cells, coords, out, past_cache);
                }
                #[cfg(target_arch = "x86_64")]
                2..=32 if WIDE == 16 => {
                    blocks::<_, _, WIDE>(&ThirtyTwo::new(table), cells, coords, out, past_cache);
                }
                _ => blocks::<_, _, WIDE>(&Pairs(table), cells, coords, out, past_cache),
            }
        }
    }
}

compiled_for_each_set! {
    fn layered(lookup: &Lookup<'_>, selectors: &[f32], out: &mut [f32], past_cache: bool) {
        let (table, coords) = (lookup.table, lookup.coords);
        let cells = Layered::new(lookup, selectors);
        // SAFETY: as in `plain`.
        unsafe {
            match lookup.width {
                1 => blocks::<_, _, WIDE>(&Singles(table), cells, coords, out, past_cache),
                _ => blocks::<_, _, WIDE>(&Pairs(table), cells, coords, out, past_cache),
            }
        }
    }
}

/// # Safety
/// The entries are those of the table that the cells are of; with `past_cache`, `out` is aligned to
/// [`simd::ALIGNMENT`]; the CPU has vectors of `WIDE` floats.
#[inline(always)]
unsafe fn blocks<L: Locate, E: Entries<L::Place>, const WIDE: usize>(
    entries: &E,
    mut cells: L,
    coords: &[f32],
    out: &mut [f32],
    past_cache: bool,
) {
    for (k, (coords, out)) in coords.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).enumerate() {
        let (places, weights) = cells.locate(k * BLOCK, coords);
        // SAFETY: within its axis a cell is at most W - 2, or 0 for W = 1; whole blocks keep the alignment.
        unsafe {
            match past_cache {
                false => evaluate::<_, _, WIDE, false>(entries, places, weights, out),
                true => evaluate::<_, _, WIDE, true>(entries, places, weights, out),
            }
        }
    }
    if past_cache {
        simd::fence();
    }
}

/// Steps 5 to 8 for a block.
///
/// # Safety
/// The places are those of cells; with `PAST` true, `out` is aligned and the caller fences; the CPU has vectors
/// of `WIDE` floats.
#[inline(always)]
unsafe fn evaluate<P: Place, E: Entries<P>, const WIDE: usize, const PAST: bool>(
    entries: &E,
    places: &[P; BLOCK],
    weights: &[f32; BLOCK],
    out: &mut [f32],
) {
    let (places, weights) = (
        places.as_chunks::<LANES>().0,
        weights.as_chunks::<LANES>().0,
    );
    let (full, tail) = out.as_chunks_mut::<LANES>();
    let last = places.iter().zip(weights).nth(full.len());
    for ((out, places), weights) in full.iter_mut().zip(places).zip(weights) {
        #[cfg(target_arch = "x86_64")]
        if WIDE >= 8 {
            // SAFETY: the caller's promise.
            unsafe { store_avx2::<_, _, PAST>(entries, places, weights, out) };
            continue;
        }
        // SAFETY: the caller's promise.
        let values = unsafe { values(entries, places, weights) };
        if PAST {
            // SAFETY: lanes are whole multiples of the alignment.
            unsafe { simd::store_past_cache(out, &values) };
        } else {
            *out = values;
        }
    }
    if let Some((places, weights)) = last.filter(|_| !tail.is_empty()) {
        // SAFETY: as above; the lanes past the end are places of an earlier block, or 0.
        let values = unsafe { values(entries, places, weights) };
        tail.copy_from_slice(&values[..tail.len()]);
    }
}

/// [`values`] for AVX2, stored: the compiler makes a third more of the plain form.
///
/// # Safety
/// The places are those of cells; the CPU has AVX2; with `PAST` true, `out` is aligned and the caller fences.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_avx2<P: Place, E: Entries<P>, const PAST: bool>(
    entries: &E,
    places: &[P; LANES],
    weights: &[f32; LANES],
    out: &mut [f32; LANES],
) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's promise; each array holds what is loaded or stored.
    unsafe {
        let (lower, upper) = entries.load_wide(places);
        let w = _mm256_loadu_ps(weights.as_ptr());
        let at_end = _mm256_cmp_ps::<_CMP_EQ_OQ>(w, _mm256_set1_ps(1.0));
        let v0 = _mm256_blendv_ps(lower, upper, at_end);
        let d = _mm256_sub_ps(upper, v0); // 6
        let m = _mm256_mul_ps(d, w); // 7
        let v = _mm256_add_ps(v0, m); // 8
        if PAST {
            _mm256_stream_ps(out.as_mut_ptr(), v);
        } else {
            _mm256_storeu_ps(out.as_mut_ptr(), v);
        }
    }
}

/// # Safety
/// The places are those of cells.
#[inline(always)]
unsafe fn values<P: Place, E: Entries<P>>(
    entries: &E,
    places: &[P; LANES],
    weights: &[f32; LANES],
) -> [f32; LANES] {
    // SAFETY: the caller's promise.
    let (lower, upper) = unsafe { entries.load(places) };
    interpolate(&lower, &upper, weights)
}

#[cfg(test)]
mod tests {
    use super::super::super::reference;
    use super::*;

    /// Narrow tables are read from registers, by forms of their own.
    #[test]
    fn narrow_tables_of_every_width() {
        for width in 1..=40_u16 {
            let mut table: Vec<f32> = (0..width).map(|k| (f32::from(k) * 0.7).sin()).collect();
            if width % 3 == 0 {
                table[usize::from(width) - 1] = f32::INFINITY;
            }
            let last = f32::from(width - 1);
            let mut coords: Vec<f32> = (0..5 * width).map(|k| f32::from(k) * 0.21 - 0.4).collect();
            coords.extend([-0.0, f32::NAN, f32::INFINITY, -1e30, last, last.next_down()]);
            let want = reference::table_lookup(&table, &coords).unwrap();
            let lookup = Lookup {
                table: &table,
                width: table.len(),
                coords: &coords,
                layers: None,
            };
            for &set in InstructionSet::available() {
                let mut got = vec![7.0; coords.len()];
                on_this_thread(set, &lookup, &mut got, false);
                for ((got, want), u) in got.iter().zip(&want).zip(&coords) {
                    let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                    assert!(same, "{set}, {u} of {width}: {got}, not {want}");
                }
            }
        }
    }

    /// Results large enough to be stored past the cache are too slow for the reference: a short one, forced.
    #[test]
    fn stores_past_the_cache_are_the_same_values() {
        #[repr(align(32))]
        struct Aligned([f32; 1003]);
        let table: Vec<f32> = (0..50).map(|k| (k * k % 17) as f32).collect();
        let coords: Vec<f32> = (0..1003).map(|k| k as f32 * 0.0512 - 0.5).collect();
        let layers: Vec<f32> = (0..1003).map(|k| (k % 6) as f32).collect();
        for layers in [None, Some(&layers[..])] {
            let (table, coords) = (&table[..], &coords[..]);
            let width = if layers.is_some() { 10 } else { 50 };
            let lookup = Lookup {
                table,
                width,
                coords,
                layers,
            };
            for &set in InstructionSet::available() {
                let (mut kept, mut past) = (Aligned([0.0; 1003]), Aligned([f32::NAN; 1003]));
                on_this_thread(set, &lookup, &mut kept.0, false);
                on_this_thread(set, &lookup, &mut past.0, true);
                assert_eq!(kept.0, past.0, "{set}");
            }
        }
    }
}
