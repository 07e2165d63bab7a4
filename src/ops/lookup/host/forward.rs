//! The values.

use super::Lookup;
use super::cells::{Axis, BLOCK, LANES, flatten, interpolate, load, locate};
use crate::error::Result;
use crate::ops::index::host::Place;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::{self, InstructionSet, compiled_for_each_set};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// Results of at least this many elements, 32 MiB, do not fit the cache: they are stored past it.
const BEYOND_CACHE: usize = 8 << 20;

/// How far ahead coordinates are asked for where the results go past the cache.
const AHEAD: usize = 2048;

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
    let &Lookup {
        table,
        width,
        coords,
        layers,
    } = lookup;
    match layers {
        None => plain(set, table, coords, out, past_cache),
        Some(layers) => layered(set, table, width, coords, layers, out, past_cache),
    }
}

compiled_for_each_set! {
    fn plain(table: &[f32], coords: &[f32], out: &mut [f32], past_cache: bool) {
        // SAFETY: `on_this_thread` checked the alignment.
        unsafe {
            match (table.len(), past_cache) {
                (1, _) => plain_blocks::<false, false>(table, coords, out),
                (_, false) => plain_blocks::<true, false>(table, coords, out),
                (_, true) => plain_blocks::<true, true>(table, coords, out),
            }
        }
    }
}

compiled_for_each_set! {
    fn layered(
        table: &[f32],
        width: usize,
        coords: &[f32],
        layers: &[f32],
        out: &mut [f32],
        past_cache: bool,
    ) {
        // SAFETY: `on_this_thread` checked the alignment.
        unsafe {
            match (width, past_cache) {
                (1, _) => layered_blocks::<false, false>(table, width, coords, layers, out),
                (_, false) => layered_blocks::<true, false>(table, width, coords, layers, out),
                (_, true) => layered_blocks::<true, true>(table, width, coords, layers, out),
            }
        }
    }
}

/// With `PAIR` false the width is 1.
///
/// # Safety
/// With `PAST` true, `out` is aligned for [`simd::store_past_cache`].
#[inline(always)]
unsafe fn plain_blocks<const PAIR: bool, const PAST: bool>(
    table: &[f32],
    coords: &[f32],
    out: &mut [f32],
) {
    let axis = Axis::new(table.len());
    let (mut cells, mut weights) = ([0; BLOCK], [0.0; BLOCK]);
    for (coords, out) in coords.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        if PAST {
            simd::prefetch(coords, AHEAD, BLOCK);
        }
        locate(axis, coords, &mut cells, &mut weights);
        // SAFETY: cells are at most W - 2, or 0 for W = 1; whole blocks keep the alignment.
        unsafe { evaluate::<_, PAIR, PAST>(table, &cells, &weights, out) };
    }
    if PAST {
        simd::fence();
    }
}

/// With `PAIR` false the width is 1.
///
/// # Safety
/// As [`plain_blocks`].
#[inline(always)]
unsafe fn layered_blocks<const PAIR: bool, const PAST: bool>(
    table: &[f32],
    width: usize,
    coords: &[f32],
    layers: &[f32],
    out: &mut [f32],
) {
    let (axis, count) = (Axis::new(width), table.len() / width);
    let (mut cells, mut flat, mut weights) = ([0; BLOCK], [0; BLOCK], [0.0; BLOCK]);
    let inputs = coords.chunks(BLOCK).zip(layers.chunks(BLOCK));
    for ((coords, selectors), out) in inputs.zip(out.chunks_mut(BLOCK)) {
        if PAST {
            simd::prefetch(coords, AHEAD, BLOCK);
            simd::prefetch(selectors, AHEAD, BLOCK);
        }
        locate(axis, coords, &mut cells, &mut weights);
        flatten(selectors, count, width, &cells, &mut flat);
        // SAFETY: within its layer a cell is at most W - 2, or 0 for W = 1; whole blocks keep the alignment.
        unsafe { evaluate::<_, PAIR, PAST>(table, &flat, &weights, out) };
    }
    if PAST {
        simd::fence();
    }
}

/// Steps 5 to 8 for a block.
///
/// # Safety
/// As [`load`]; with `PAST` true, `out` is aligned and the caller fences.
#[inline(always)]
unsafe fn evaluate<P: Place, const PAIR: bool, const PAST: bool>(
    table: &[f32],
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
        // SAFETY: the caller's promise.
        let values = unsafe { values::<P, PAIR>(table, places, weights) };
        if PAST {
            // SAFETY: lanes are whole multiples of the alignment.
            unsafe { simd::store_past_cache(out, &values) };
        } else {
            *out = values;
        }
    }
    if let Some((places, weights)) = last.filter(|_| !tail.is_empty()) {
        // SAFETY: as above; the lanes past the end are places of an earlier block, or 0.
        let values = unsafe { values::<P, PAIR>(table, places, weights) };
        tail.copy_from_slice(&values[..tail.len()]);
    }
}

/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn values<P: Place, const PAIR: bool>(
    table: &[f32],
    places: &[P; LANES],
    weights: &[f32; LANES],
) -> [f32; LANES] {
    // SAFETY: the caller's promise.
    let (lower, upper) = unsafe { load::<P, PAIR>(table, places) };
    let mut values = [0.0; LANES];
    for k in 0..LANES {
        values[k] = interpolate(lower[k], upper[k], weights[k]);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results large enough to be stored past the cache are too slow for the reference: a short one, forced.
    #[test]
    fn stores_past_the_cache_are_the_same_values() {
        #[repr(align(16))]
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
