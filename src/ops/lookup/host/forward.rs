//! The values.

use super::Lookup;
use super::cells::{Aligned, Axis, BLOCK, LANES, flatten, interpolate, load, locate, read_ahead};
use crate::error::Result;
use crate::ops::index::host::Place;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::{self, InstructionSet, compiled_for_each_set};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// Results of at least this many elements, 32 MiB, do not fit the cache: they are stored past it.
const BEYOND_CACHE: usize = 8 << 20;

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
        // SAFETY: `on_this_thread` checked the alignment, and `WIDE` is what this is compiled for.
        unsafe {
            match (table.len(), past_cache) {
                (1, _) => plain_blocks::<false, false, WIDE>(table, coords, out),
                (_, false) => plain_blocks::<true, false, WIDE>(table, coords, out),
                (_, true) => plain_blocks::<true, true, WIDE>(table, coords, out),
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
        // SAFETY: `on_this_thread` checked the alignment, and `WIDE` is what this is compiled for.
        unsafe {
            match (width, past_cache) {
                (1, _) => layered_blocks::<false, false, WIDE>(table, width, coords, layers, out),
                (_, false) => layered_blocks::<true, false, WIDE>(table, width, coords, layers, out),
                (_, true) => layered_blocks::<true, true, WIDE>(table, width, coords, layers, out),
            }
        }
    }
}

/// With `PAIR` false the width is 1.
///
/// # Safety
/// With `PAST` true, `out` is aligned to [`simd::ALIGNMENT`]; with `WIDE` true the CPU has AVX2.
#[inline(always)]
unsafe fn plain_blocks<const PAIR: bool, const PAST: bool, const WIDE: bool>(
    table: &[f32],
    coords: &[f32],
    out: &mut [f32],
) {
    let (axis, n) = (Axis::new(table.len()), coords.len());
    let (mut cells, mut weights) = (Aligned([0; BLOCK]), Aligned([0.0; BLOCK]));
    let (cells, weights) = (&mut cells.0, &mut weights.0);
    for (coords, out) in coords.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        read_ahead(n, coords);
        locate(axis, coords, cells, weights);
        // SAFETY: cells are at most W - 2, or 0 for W = 1; whole blocks keep the alignment.
        unsafe { evaluate::<_, PAIR, PAST, WIDE>(table, cells, weights, out) };
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
unsafe fn layered_blocks<const PAIR: bool, const PAST: bool, const WIDE: bool>(
    table: &[f32],
    width: usize,
    coords: &[f32],
    layers: &[f32],
    out: &mut [f32],
) {
    let (axis, count) = (Axis::new(width), table.len() / width);
    let n = coords.len();
    let (mut cells, mut flat) = (Aligned([0; BLOCK]), Aligned([0; BLOCK]));
    let mut weights = Aligned([0.0; BLOCK]);
    let (cells, flat, weights) = (&mut cells.0, &mut flat.0, &mut weights.0);
    let inputs = coords.chunks(BLOCK).zip(layers.chunks(BLOCK));
    for ((coords, selectors), out) in inputs.zip(out.chunks_mut(BLOCK)) {
        read_ahead(n, coords);
        read_ahead(n, selectors);
        locate(axis, coords, cells, weights);
        flatten(selectors, count, width, cells, flat);
        // SAFETY: within its layer a cell is at most W - 2, or 0 for W = 1; whole blocks keep the alignment.
        unsafe { evaluate::<_, PAIR, PAST, WIDE>(table, flat, weights, out) };
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
unsafe fn evaluate<P: Place, const PAIR: bool, const PAST: bool, const WIDE: bool>(
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
        #[cfg(target_arch = "x86_64")]
        if PAIR && WIDE {
            // SAFETY: the caller's promise.
            unsafe { store_avx2::<P, PAST>(table, places, weights, out) };
            continue;
        }
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

/// [`values`] for AVX2, stored: the compiler makes a third more of the plain form.
///
/// # Safety
/// As [`load`]; the CPU has AVX2; with `PAST` true, `out` is aligned and the caller fences.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store_avx2<P: Place, const PAST: bool>(
    table: &[f32],
    places: &[P; LANES],
    weights: &[f32; LANES],
    out: &mut [f32; LANES],
) {
    use std::arch::x86_64::*;
    // SAFETY: each load reads the 8 bytes of two neighbouring entries, which the caller promised to be there; it needs
    // no alignment. The store past the cache needs what the caller promised.
    unsafe {
        let pair = |k: usize| table.as_ptr().add(places[k].get()).cast::<f64>();
        let pairs = |k: usize| _mm_loadh_pd(_mm_load_sd(pair(k)), pair(k + 1));
        let join = |low, high| {
            _mm256_castpd_ps(_mm256_insertf128_pd::<1>(_mm256_castpd128_pd256(low), high))
        };
        let (first, second) = (join(pairs(0), pairs(4)), join(pairs(2), pairs(6)));
        let lower = _mm256_shuffle_ps::<0b10_00_10_00>(first, second);
        let upper = _mm256_shuffle_ps::<0b11_01_11_01>(first, second);
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
