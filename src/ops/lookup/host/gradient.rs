//! The gradients of the table and of the coordinates, in one pass.

use super::Lookup;
use super::cells::{Axis, BLOCK, LANES, flatten, load, locate};
use super::sums::{Dense, Sparse, Sums};
use crate::error::Result;
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

/// A table with at least this many entries per coordinate is for the most part not touched.
const FEW: usize = 4;

/// The gradients for a cotangent `g`.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for the sums; libtorch's, where its threads cannot be had.
pub(crate) fn vjp(lookup: &Lookup<'_>, g: &[f32], gradients: Gradients<'_>) -> Result<()> {
    let set = runtime::instruction_set();
    let Gradients { table, coords } = gradients;
    let Some(d_table) = table else {
        return match coords {
            Some(d_coords) => slopes_in_parallel(set, lookup, g, d_coords),
            None => Ok(()),
        };
    };
    let (n, width) = (lookup.coords.len(), lookup.width);
    if n < d_table.len() / FEW && u32::try_from(n).is_ok() {
        let mut sums = Sparse::new(n)?;
        match coords {
            None => scatter_sparsely(set, lookup, g, &mut sums),
            Some(d_coords) => both_sparsely(set, lookup, g, &mut sums, d_coords),
        }
        sums.finish(width, d_table);
        return Ok(());
    }
    let mut sums = Dense::new(d_table.len())?;
    match coords {
        None => scatter(set, lookup, g, &mut sums),
        Some(d_coords) => both(set, lookup, g, &mut sums, d_coords),
    }
    sums.finish(width, d_table);
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
        pass::<true, false, Dense>(lookup, g, out, None);
    }
}

compiled_for_each_set! {
    fn scatter(lookup: &Lookup<'_>, g: &[f32], sums: &mut Dense) {
        pass::<false, true, Dense>(lookup, g, &mut [], Some(sums));
    }
}

compiled_for_each_set! {
    fn both(lookup: &Lookup<'_>, g: &[f32], sums: &mut Dense, out: &mut [f32]) {
        pass::<true, true, Dense>(lookup, g, out, Some(sums));
    }
}

compiled_for_each_set! {
    fn scatter_sparsely(lookup: &Lookup<'_>, g: &[f32], sums: &mut Sparse) {
        pass::<false, true, Sparse>(lookup, g, &mut [], Some(sums));
    }
}

compiled_for_each_set! {
    fn both_sparsely(lookup: &Lookup<'_>, g: &[f32], sums: &mut Sparse, out: &mut [f32]) {
        pass::<true, true, Sparse>(lookup, g, out, Some(sums));
    }
}

/// The gradient of the coordinates (`COORDS`) into `out`, that of the table (`TABLE`) into `sums`.
#[inline(always)]
fn pass<const COORDS: bool, const TABLE: bool, S: Sums>(
    lookup: &Lookup<'_>,
    g: &[f32],
    out: &mut [f32],
    mut sums: Option<&mut S>,
) {
    let &Lookup {
        table,
        width,
        coords,
        layers,
    } = lookup;
    let (axis, count) = (Axis::new(width), table.len() / width);
    assert!(sums.as_ref().is_none_or(|sums| sums.hold(table.len())));
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
        if TABLE && let Some(sums) = sums.as_deref_mut() {
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
    // The coordinates strictly inside keep every bit of their slope, the others none.
    let mut kept = [0; BLOCK];
    for (kept, &u) in kept.iter_mut().zip(coords) {
        *kept = if (u > 0.0) & (u < axis.last) {
            u32::MAX
        } else {
            0
        };
    }
    let (places, kept) = (places.as_chunks::<LANES>().0, kept.as_chunks::<LANES>().0);
    let (full, tail) = out.as_chunks_mut::<LANES>();
    let (g, last_g) = g.as_chunks::<LANES>();
    let last = places.iter().zip(kept).nth(full.len());
    for (((out, places), kept), g) in full.iter_mut().zip(places).zip(kept).zip(g) {
        // SAFETY: the caller's promise.
        *out = unsafe { slopes_of::<P, PAIR>(table, places, kept, g) };
    }
    if let Some((places, kept)) = last.filter(|_| !tail.is_empty()) {
        let mut g = [0.0; LANES];
        g[..tail.len()].copy_from_slice(last_g);
        // SAFETY: as above; the lanes past the end are places of an earlier block, or 0.
        let slopes = unsafe { slopes_of::<P, PAIR>(table, places, kept, &g) };
        tail.copy_from_slice(&slopes[..tail.len()]);
    }
}

/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn slopes_of<P: Place, const PAIR: bool>(
    table: &[f32],
    places: &[P; LANES],
    kept: &[u32; LANES],
    g: &[f32; LANES],
) -> [f32; LANES] {
    // SAFETY: the caller's promise.
    let (lower, upper) = unsafe { load::<P, PAIR>(table, places) };
    let mut slopes = [0.0; LANES];
    for k in 0..LANES {
        let slope = g[k] * (upper[k] - lower[k]);
        slopes[k] = f32::from_bits(slope.to_bits() & kept[k]);
    }
    slopes
}

/// Both scatters of a block, in order.
///
/// # Safety
/// Every place is one that `sums` holds, and so is the next where the weight is 1.
#[inline(always)]
unsafe fn add<P: Place, S: Sums>(
    places: &[P; BLOCK],
    weights: &[f32; BLOCK],
    g: &[f32],
    sums: &mut S,
) {
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
    let mut repeated = 0;
    for (row, next) in rows.iter().zip(&rows[1..]) {
        repeated += u32::from(row == next);
    }
    if (repeated as usize) < n / 2 {
        for (row, term) in rows.iter().zip(terms) {
            // SAFETY: the caller's promise.
            let sum = unsafe { sums.at(row.get()) };
            *sum = [sum[0] + term[0], sum[1] + term[1]];
        }
        return;
    }
    // Sorted coordinates stay in a cell for long: its sums stay in a register, not in memory.
    let mut terms = rows.iter().zip(terms).peekable();
    while let Some((row, term)) = terms.next() {
        // SAFETY: the caller's promise.
        let sum = unsafe { sums.at(row.get()) };
        let mut kept = [sum[0] + term[0], sum[1] + term[1]];
        while let Some((_, term)) = terms.next_if(|(next, _)| *next == row) {
            kept = [kept[0] + term[0], kept[1] + term[1]];
        }
        *sum = kept;
    }
}
