//! The gradients of the table and of the coordinates, in one pass.

use super::Lookup;
use super::cells::{Aligned, Axis, BLOCK, flatten, locate, read_ahead};
use super::entries::{Entries, LANES, Pairs, Singles};
use super::forward::BEYOND_CACHE;
use super::sums::{Dense, PairedSums, Sparse};
use crate::aten;
use crate::error::Result;
use crate::ops::index::host::{Place, add_in_order};
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::{self, InstructionSet, compiled_for_each_set};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// The gradients asked for, written throughout.
pub(crate) struct Gradients<'a> {
    pub(crate) table: Option<&'a mut [f32]>,
    pub(crate) coords: Option<&'a mut [f32]>,
}

/// A table with at least this many entries per coordinate is for the most part not touched.
const FEW: usize = 16;

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
    let op = match lookup.layers {
        None => "table_lookup_vjp",
        Some(_) => "layered_table_lookup_vjp",
    };
    let (n, width) = (lookup.coords.len(), lookup.width);
    if n < d_table.len() / FEW && u32::try_from(n).is_ok() {
        let mut sums = Sparse::new(op, n)?;
        sparse(set, lookup, g, coords, &mut sums);
        sums.finish(width, d_table);
        return Ok(());
    }
    let mut sums = Dense::new(op, d_table.len())?;
    match coords {
        Some(d_coords) if n >= 2 * GRAIN && aten::threads() > 1 => {
            side_by_side(set, lookup, g, d_coords, &mut sums)?;
        }
        d_coords => dense(set, lookup, g, d_coords, Some(&mut sums), n >= BEYOND_CACHE),
    }
    sums.finish(set, width, d_table);
    Ok(())
}

fn slopes_in_parallel(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let length = piece(out.len(), GRAIN, BLOCK);
    let beyond = out.len() >= BEYOND_CACHE;
    parallel_each(out.chunks_mut(length).enumerate(), |(k, out)| {
        let range = k * length..k * length + out.len();
        dense(
            set,
            &lookup.part(range.clone()),
            &g[range],
            Some(out),
            None,
            beyond,
        );
    })
}

/// The sums on one thread, since their order is fixed, and the slopes on the others.
fn side_by_side(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    out: &mut [f32],
    sums: &mut Dense,
) -> Result<()> {
    enum Part<'a> {
        Sums(&'a mut Dense),
        Slopes(usize, &'a mut [f32]),
    }
    let others = aten::threads() - 1;
    let beyond = out.len() >= BEYOND_CACHE;
    let length = out
        .len()
        .div_ceil(others)
        .max(GRAIN)
        .next_multiple_of(BLOCK);
    let slopes = out.chunks_mut(length).enumerate();
    let slopes = slopes.map(|(k, out)| Part::Slopes(k * length, out));
    parallel_each(
        std::iter::once(Part::Sums(sums)).chain(slopes),
        |part| match part {
            Part::Sums(sums) => dense(set, lookup, g, None, Some(sums), false),
            Part::Slopes(start, out) => {
                let range = start..start + out.len();
                dense(
                    set,
                    &lookup.part(range.clone()),
                    &g[range],
                    Some(out),
                    None,
                    beyond,
                );
            }
        },
    )
}

compiled_for_each_set! {
    fn dense(
        lookup: &Lookup<'_>,
        g: &[f32],
        out: Option<&mut [f32]>,
        sums: Option<&mut Dense>,
        beyond: bool,
    ) {
        pass::<Dense>(lookup, g, out, sums, beyond);
    }
}

compiled_for_each_set! {
    fn sparse(lookup: &Lookup<'_>, g: &[f32], out: Option<&mut [f32]>, sums: &mut Sparse) {
        pass::<Sparse>(lookup, g, out, Some(sums), false);
    }
}

/// The gradient of the coordinates into `out`, that of the table into `sums`. With `beyond`, `out` is one of those that
/// do not fit the cache, or a piece of one, and is stored past it where it is aligned.
#[inline(always)]
fn pass<S: PairedSums>(
    lookup: &Lookup<'_>,
    g: &[f32],
    mut out: Option<&mut [f32]>,
    sums: Option<&mut S>,
    beyond: bool,
) {
    let &Lookup {
        table,
        width,
        coords,
        layers,
    } = lookup;
    let (axis, count) = (Axis::new(width), table.len() / width);
    let n = coords.len();
    assert!(sums.as_ref().is_none_or(|sums| sums.hold(table.len())));
    let (mut cells, mut flat) = (Aligned([0; BLOCK]), Aligned([0; BLOCK]));
    let mut weights = Aligned([0.0; BLOCK]);
    let (cells, flat, weights) = (&mut cells.0, &mut flat.0, &mut weights.0);
    let mut sums = sums.map(|sums| (sums, Aligned([[0.0; 2]; BLOCK])));
    for (k, (coords, g)) in coords.chunks(BLOCK).zip(g.chunks(BLOCK)).enumerate() {
        let range = k * BLOCK..k * BLOCK + coords.len();
        read_ahead(n, coords);
        read_ahead(n, g);
        locate(axis, coords, cells, weights);
        if let Some(layers) = layers {
            flatten(&layers[range.clone()], count, width, cells, flat);
        }
        if let Some(out) = out.as_deref_mut() {
            let out = &mut out[range];
            let past_cache = beyond && out.as_ptr().align_offset(simd::ALIGNMENT) == 0;
            // SAFETY: within its layer a cell is at most W - 2, or 0 for W = 1; the alignment was looked at, and there is
            // a fence below.
            unsafe {
                match (layers, width) {
                    (None, 1) => slope(&Singles(table), axis, cells, coords, g, out, past_cache),
                    (None, _) => slope(&Pairs(table), axis, cells, coords, g, out, past_cache),
                    (Some(_), 1) => slope(&Singles(table), axis, flat, coords, g, out, past_cache),
                    (Some(_), _) => slope(&Pairs(table), axis, flat, coords, g, out, past_cache),
                }
            }
        }
        if let Some((sums, terms)) = &mut sums {
            // SAFETY: within its layer a cell is at most W - 2, or 0 for W = 1, where no weight is 1.
            unsafe {
                match layers {
                    None => add(cells, weights, g, &mut terms.0, *sums),
                    Some(_) => add(flat, weights, g, &mut terms.0, *sums),
                }
            }
        }
    }
    if beyond {
        simd::fence();
    }
}

/// `g * d` strictly inside, else +0.0, for a block.
///
/// # Safety
/// The places are those of cells; with `past_cache`, `out` is aligned to [`simd::ALIGNMENT`] and the caller fences.
#[inline(always)]
unsafe fn slope<P: Place, E: Entries<P>>(
    entries: &E,
    axis: Axis,
    places: &[P; BLOCK],
    coords: &[f32],
    g: &[f32],
    out: &mut [f32],
    past_cache: bool,
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
        let slopes = unsafe { slopes_of(entries, places, kept, g) };
        if past_cache {
            // SAFETY: the caller promised the alignment, of which lanes are whole multiples.
            unsafe { simd::store_past_cache(out, &slopes) };
        } else {
            *out = slopes;
        }
    }
    if let Some((places, kept)) = last.filter(|_| !tail.is_empty()) {
        let mut g = [0.0; LANES];
        g[..tail.len()].copy_from_slice(last_g);
        // SAFETY: as above; the lanes past the end are places of an earlier block, or 0.
        let slopes = unsafe { slopes_of(entries, places, kept, &g) };
        tail.copy_from_slice(&slopes[..tail.len()]);
    }
}

/// # Safety
/// The places are those of cells.
#[inline(always)]
unsafe fn slopes_of<P: Place, E: Entries<P>>(
    entries: &E,
    places: &[P; LANES],
    kept: &[u32; LANES],
    g: &[f32; LANES],
) -> [f32; LANES] {
    // SAFETY: the caller's promise.
    let (lower, upper) = unsafe { entries.load(places) };
    let mut slopes = [0.0; LANES];
    for k in 0..LANES {
        let slope = g[k] * (upper[k] - lower[k]);
        slopes[k] = f32::from_bits(slope.to_bits() & kept[k]);
    }
    slopes
}

/// Both scatters of a block, in order; `places` and `terms` are left with what was added where.
///
/// # Safety
/// Every place is one that `sums` holds, and so is the next where the weight is 1.
#[inline(always)]
unsafe fn add<P: Place, S: PairedSums>(
    places: &mut [P; BLOCK],
    weights: &[f32; BLOCK],
    g: &[f32],
    terms: &mut [[f32; 2]; BLOCK],
    sums: &mut S,
) {
    let n = g.len();
    let mut padded = [0.0; BLOCK];
    let g = g.as_array().unwrap_or_else(|| {
        padded[..n].copy_from_slice(g);
        &padded
    });
    // Whole blocks, so that the compiler knows the length; what lies past `n` is left out below.
    for k in 0..BLOCK {
        let at_end = weights[k] == 1.0;
        let w = if at_end { 0.0 } else { weights[k] };
        let gm = g[k] * w;
        places[k] = places[k].after(at_end);
        // A NaN coordinate puts NaN into entry 0 alone, by way of g0.
        terms[k] = [g[k] - gm, if w.is_nan() { 0.0 } else { gm }];
    }
    // SAFETY: the caller's promise.
    unsafe { add_in_order(places, &terms[..n], sums) };
}

#[cfg(test)]
mod tests {
    use super::super::super::reference;
    use super::*;

    /// On several threads the sums and the slopes are computed apart.
    #[test]
    fn both_at_once_are_each_alone() {
        let n = 2 * GRAIN + 77;
        let table: Vec<f32> = (0..500).map(|k| (k * k % 17) as f32 * 0.1).collect();
        let coords: Vec<f32> = (0..n)
            .map(|k| (k * 7919 % n) as f32 * 0.0078 - 1.0)
            .collect();
        let g: Vec<f32> = (0..n).map(|k| (k % 13) as f32 * 0.3 - 1.7).collect();
        let layers: Vec<f32> = (0..n).map(|k| (k % 6) as f32).collect();
        for (width, layers) in [(500, None), (100, Some(&layers[..]))] {
            let lookup = Lookup {
                table: &table,
                width,
                coords: &coords,
                layers,
            };
            let (mut d_table, mut d_coords) = (vec![f32::NAN; 500], vec![f32::NAN; n]);
            let (mut table_alone, mut coords_alone) = (d_table.clone(), d_coords.clone());
            let of = |table, coords| vjp(&lookup, &g, Gradients { table, coords }).unwrap();
            of(Some(&mut d_table), Some(&mut d_coords));
            of(Some(&mut table_alone), None);
            of(None, Some(&mut coords_alone));
            assert_eq!(d_table, table_alone);
            assert_eq!(d_coords, coords_alone);
        }
    }

    /// Few coordinates of a long table: only the entries that occur are added up.
    #[test]
    fn few_coordinates_of_a_long_table() {
        let size = 10_000;
        let table: Vec<f32> = (0..size).map(|k| (k * k % 17) as f32 * 0.1).collect();
        let coords = [
            7.25,
            7.5,
            -1.0,
            0.0,
            9_998.75,
            9_999.0,
            1e9,
            f32::NAN,
            8.0,
            7.5,
            5_000.5,
        ];
        let g: Vec<f32> = (0..coords.len()).map(|k| 0.7 + k as f32 * 0.3).collect();
        assert!(coords.len() < size / FEW);
        let (want_table, want_coords) = reference::table_lookup_vjp(&table, &coords, &g).unwrap();
        for &set in InstructionSet::available() {
            let (mut d_table, mut d_coords) = (vec![f32::NAN; size], [f32::NAN; 11]);
            let lookup = Lookup {
                table: &table,
                width: size,
                coords: &coords,
                layers: None,
            };
            let gradients = Gradients {
                table: Some(&mut d_table),
                coords: Some(&mut d_coords),
            };
            runtime::with_instruction_set(set, || vjp(&lookup, &g, gradients)).unwrap();
            assert!(d_table[0].is_nan() && want_table[0].is_nan());
            assert_eq!(d_table[1..], want_table[1..], "{set}");
            assert_eq!(d_coords[..], want_coords[..], "{set}");
        }
    }
}
