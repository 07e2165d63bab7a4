//! The values.

use super::Lookup;
use super::cells::{Axis, BLOCK, LANES, flatten, interpolate, load, locate};
use crate::error::Result;
use crate::ops::index::host::Place;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::{InstructionSet, compiled_for_each_set};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// The value at every coordinate.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(crate) fn forward(lookup: &Lookup<'_>, out: &mut [f32]) -> Result<()> {
    let set = runtime::instruction_set();
    let n = lookup.coords.len();
    if n < 2 * GRAIN {
        on_this_thread(set, lookup, out);
        return Ok(());
    }
    let length = piece(n, GRAIN, BLOCK);
    parallel_each(out.chunks_mut(length).enumerate(), |(k, out)| {
        let start = k * length;
        on_this_thread(set, &lookup.part(start..start + out.len()), out);
    })
}

fn on_this_thread(set: InstructionSet, lookup: &Lookup<'_>, out: &mut [f32]) {
    let &Lookup {
        table,
        width,
        coords,
        layers,
    } = lookup;
    match layers {
        None => plain(set, table, coords, out),
        Some(layers) => layered(set, table, width, coords, layers, out),
    }
}

compiled_for_each_set! {
    fn plain(table: &[f32], coords: &[f32], out: &mut [f32]) {
        let axis = Axis::new(table.len());
        let (mut cells, mut weights) = ([0; BLOCK], [0.0; BLOCK]);
        for (coords, out) in coords.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
            locate(axis, coords, &mut cells, &mut weights);
            // SAFETY: cells are at most W - 2, or 0 for W = 1.
            unsafe { evaluate(table, table.len(), &cells, &weights, out) };
        }
    }
}

compiled_for_each_set! {
    fn layered(table: &[f32], width: usize, coords: &[f32], layers: &[f32], out: &mut [f32]) {
        let (axis, count) = (Axis::new(width), table.len() / width);
        let (mut cells, mut flat, mut weights) = ([0; BLOCK], [0; BLOCK], [0.0; BLOCK]);
        let selectors = layers.chunks(BLOCK);
        for ((coords, selectors), out) in coords.chunks(BLOCK).zip(selectors).zip(out.chunks_mut(BLOCK)) {
            locate(axis, coords, &mut cells, &mut weights);
            flatten(selectors, count, width, &cells, &mut flat);
            // SAFETY: within its layer a cell is at most W - 2, or 0 for W = 1.
            unsafe { evaluate(table, width, &flat, &weights, out) };
        }
    }
}

/// Steps 5 to 8 for a block.
///
/// # Safety
/// As [`load`], with `PAIR` where the width is not 1.
#[inline(always)]
unsafe fn evaluate<P: Place>(
    table: &[f32],
    width: usize,
    places: &[P; BLOCK],
    weights: &[f32; BLOCK],
    out: &mut [f32],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if width == 1 {
            evaluate_entries::<P, false>(table, places, weights, out);
        } else {
            evaluate_entries::<P, true>(table, places, weights, out);
        }
    }
}

/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn evaluate_entries<P: Place, const PAIR: bool>(
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
        *out = unsafe { values::<P, PAIR>(table, places, weights) };
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
