//! The gradients of the table and of the coordinates, in one pass.
//!
//! The contract's table gradient is the sum of two scatters: of `g0` to the lower entries and of `gm` to the upper ones.
//! Both sums of a cell stand side by side, so that one 8-byte read, addition and write does both, and each sum is added
//! up in the order of the coordinates. `sums[k]` holds what flows to entry `k` as a lower and to entry `k + 1` as an
//! upper one; a sum never is -0.0, so adding a zero changes none, and that is what leaves the end of the axis (where the
//! upper entry is the last one, with `gm` a zero or, beside a NaN in `g0`, a NaN) without a case of its own.

use super::Lookup;
use super::cells::{Axis, BLOCK, LANES, flatten, load, locate};
use crate::error::{Error, Result};
use crate::ops::index::host::Place;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::{InstructionSet, compiled_for_each_set};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// The gradients asked for, written throughout.
pub(crate) struct Gradients<'a> {
    pub(crate) table: Option<&'a mut [f32]>,
    pub(crate) coords: Option<&'a mut [f32]>,
}

/// What flows to an entry as the lower one of its cell, and to the next one as the upper.
type Sums = [f32; 2];

/// The gradients for a cotangent `g`.
///
/// # Errors
/// [`Error::OutOfMemory`] for the sums; libtorch's, where its threads cannot be had.
pub(crate) fn vjp(lookup: &Lookup<'_>, g: &[f32], gradients: Gradients<'_>) -> Result<()> {
    let set = runtime::instruction_set();
    let Gradients { table, coords } = gradients;
    let Some(d_table) = table else {
        return match coords {
            Some(d_coords) => slopes_in_parallel(set, lookup, g, d_coords),
            None => Ok(()),
        };
    };
    let mut sums = zeros(lookup.table.len())?;
    accumulate(set, lookup, g, &mut sums, coords)?;
    for (out, sums) in d_table
        .chunks_mut(lookup.width)
        .zip(sums.chunks(lookup.width))
    {
        let mut upper = 0.0;
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = sum[0] + upper;
            upper = sum[1];
        }
    }
    Ok(())
}

/// Both sums of every entry, starting from +0.0.
fn zeros(n: usize) -> Result<Vec<Sums>> {
    let mut sums: Vec<Sums> = Vec::new();
    sums.try_reserve_exact(n).map_err(|_| Error::OutOfMemory {
        op: "table_lookup_vjp",
        bytes: n as u64 * size_of::<Sums>() as u64,
    })?;
    sums.resize(n, [0.0; 2]);
    Ok(sums)
}

fn accumulate(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    sums: &mut [Sums],
    d_coords: Option<&mut [f32]>,
) -> Result<()> {
    match d_coords {
        None => scatter(set, lookup, g, sums),
        Some(d_coords) => both(set, lookup, g, sums, d_coords),
    }
    Ok(())
}

fn slopes_in_parallel(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    out: &mut [f32],
) -> Result<()> {
    if out.len() < 2 * GRAIN {
        slopes(set, lookup, g, out);
        return Ok(());
    }
    let length = piece(out.len(), GRAIN, BLOCK);
    parallel_each(out.chunks_mut(length).enumerate(), |(k, out)| {
        let range = k * length..k * length + out.len();
        slopes(set, &lookup.part(range.clone()), &g[range], out);
    })
}

compiled_for_each_set! {
    fn slopes(lookup: &Lookup<'_>, g: &[f32], out: &mut [f32]) {
        pass::<true, false>(lookup, g, out, &mut []);
    }
}

compiled_for_each_set! {
    fn scatter(lookup: &Lookup<'_>, g: &[f32], sums: &mut [Sums]) {
        pass::<false, true>(lookup, g, &mut [], sums);
    }
}

compiled_for_each_set! {
    fn both(lookup: &Lookup<'_>, g: &[f32], sums: &mut [Sums], out: &mut [f32]) {
        pass::<true, true>(lookup, g, out, sums);
    }
}

/// The gradient of the coordinates (`COORDS`) into `out`, that of the table (`TABLE`) into `sums`.
#[inline(always)]
fn pass<const COORDS: bool, const TABLE: bool>(
    lookup: &Lookup<'_>,
    g: &[f32],
    out: &mut [f32],
    sums: &mut [Sums],
) {
    let &Lookup {
        table,
        width,
        coords,
        layers,
    } = lookup;
    let (axis, count) = (Axis::new(width), table.len() / width);
    assert!(!TABLE || sums.len() == table.len());
    let (mut cells, mut flat, mut weights) = ([0; BLOCK], [0; BLOCK], [0.0; BLOCK]);
    for (k, (coords, g)) in coords.chunks(BLOCK).zip(g.chunks(BLOCK)).enumerate() {
        let range = k * BLOCK..k * BLOCK + coords.len();
        locate(axis, coords, &mut cells, &mut weights);
        if let Some(layers) = layers {
            flatten(&layers[range.clone()], count, width, &cells, &mut flat);
        }
        if COORDS {
            let out = &mut out[range];
            // SAFETY: within its layer a cell is at most W - 2, or 0 for W = 1.
            unsafe {
                match (layers, width) {
                    (None, 1) => slope::<_, false>(table, axis, &cells, coords, g, out),
                    (None, _) => slope::<_, true>(table, axis, &cells, coords, g, out),
                    (Some(_), 1) => slope::<_, false>(table, axis, &flat, coords, g, out),
                    (Some(_), _) => slope::<_, true>(table, axis, &flat, coords, g, out),
                }
            }
        }
        if TABLE {
            // SAFETY: within its layer a cell is at most W - 2, or 0 for W = 1, where no weight is 1.
            unsafe {
                match layers {
                    None => add(&cells, &weights, g, sums),
                    Some(_) => add(&flat, &weights, g, sums),
                }
            }
        }
    }
}

/// `g * d` strictly inside, else +0.0, for a block.
///
/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn slope<P: Place, const PAIR: bool>(
    table: &[f32],
    axis: Axis,
    places: &[P; BLOCK],
    coords: &[f32],
    g: &[f32],
    out: &mut [f32],
) {
    let places = places.as_chunks::<LANES>().0;
    let (full, tail) = out.as_chunks_mut::<LANES>();
    let (coords, last_coords) = coords.as_chunks::<LANES>();
    let (g, last_g) = g.as_chunks::<LANES>();
    for (k, out) in full.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let (lower, upper) = unsafe { load::<P, PAIR>(table, &places[k]) };
        for lane in 0..LANES {
            out[lane] = inside(
                axis,
                coords[k][lane],
                g[k][lane] * (upper[lane] - lower[lane]),
            );
        }
    }
    if !tail.is_empty() {
        // SAFETY: as above; the lanes past the end are places of an earlier block, or 0.
        let (lower, upper) = unsafe { load::<P, PAIR>(table, &places[full.len()]) };
        for (lane, out) in tail.iter_mut().enumerate() {
            *out = inside(
                axis,
                last_coords[lane],
                last_g[lane] * (upper[lane] - lower[lane]),
            );
        }
    }
}

/// The slope where the coordinate is strictly inside, selected and not multiplied.
#[inline(always)]
fn inside(axis: Axis, u: f32, slope: f32) -> f32 {
    if (u > 0.0) & (u < axis.last) {
        slope
    } else {
        0.0
    }
}

/// Both scatters of a block, in order.
///
/// # Safety
/// Every place is below `sums.len()`, and below `sums.len() - 1` where the weight is 1.
#[inline(always)]
unsafe fn add<P: Place>(places: &[P; BLOCK], weights: &[f32; BLOCK], g: &[f32], sums: &mut [Sums]) {
    let n = g.len();
    let (mut rows, mut terms) = ([P::default(); BLOCK], [[0.0; 2]; BLOCK]);
    let (places, weights) = (&places[..n], &weights[..n]);
    let (rows, terms) = (&mut rows[..n], &mut terms[..n]);
    for k in 0..n {
        let at_end = weights[k] == 1.0;
        let w = if at_end { 0.0 } else { weights[k] };
        let gm = g[k] * w;
        rows[k] = places[k].after(at_end);
        // A NaN coordinate puts NaN into entry 0 alone, by way of g0.
        terms[k] = [g[k] - gm, if w.is_nan() { 0.0 } else { gm }];
    }
    for (row, term) in rows.iter().zip(terms) {
        // SAFETY: the caller's promise.
        let sum = unsafe { sums.get_unchecked_mut(row.get()) };
        *sum = [sum[0] + term[0], sum[1] + term[1]];
    }
}
