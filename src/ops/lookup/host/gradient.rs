//! The gradients of the table and of the coordinates, in one pass, and the values with them.

use super::cells::{Aligned, Axis, BLOCK, Layered, Locate, Plain, interpolate, read_ahead};
use super::entries::{Entries, LANES, Pairs, Singles};
use super::forward::{BEYOND_CACHE, forward};
use super::sums::{Dense, PairedSums, Sparse};
use super::{Lookup, VjpOutputs};
use crate::aten;
use crate::error::Result;
use crate::ops::index::host::{Place, Run, add_each, add_in_order, mostly_repeated};
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::{self, InstructionSet, compiled_for_each_set};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 32 * 1024;

/// A table with at least this many entries per coordinate is for the most part not touched.
const FEW: usize = 16;

/// What is wanted for a cotangent `g`.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for the sums; libtorch's, where its threads cannot be had.
pub(crate) fn vjp(lookup: &Lookup<'_>, g: &[f32], outputs: VjpOutputs<'_>) -> Result<()> {
    let set = runtime::instruction_set();
    let points = match (outputs.value, outputs.d_coords) {
        (values, Some(slopes)) => Some(Points { slopes, values }),
        (Some(values), None) => {
            forward(lookup, values)?;
            None
        }
        (None, None) => None,
    };
    let Some(d_table) = outputs.d_table else {
        return match points {
            Some(points) => points_in_parallel(set, lookup, g, points),
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
        sparse(set, lookup, g, points, &mut sums);
        sums.finish(width, d_table);
        return Ok(());
    }
    let mut sums = Dense::new(op, d_table.len())?;
    match points {
        Some(points) if n >= 2 * GRAIN && aten::threads() > 1 => {
            side_by_side(set, lookup, g, points, sums.pairs())?;
        }
        points => on_this_thread(set, lookup, g, points, Some(sums.pairs()), n),
    }
    sums.finish(set, width, d_table);
    Ok(())
}

/// The results by coordinate, or those of some coordinates in a row.
struct Points<'a> {
    /// The gradient of the coordinates.
    slopes: &'a mut [f32],
    values: Option<&'a mut [f32]>,
}

impl<'a> Points<'a> {
    /// The first `n`, or all of fewer, which are no longer among these.
    #[inline(always)]
    fn take(&mut self, n: usize) -> Points<'a> {
        let n = n.min(self.slopes.len());
        let first = |slice: &mut &'a mut [f32]| {
            let (first, rest) = std::mem::take(slice).split_at_mut(n);
            *slice = rest;
            first
        };
        Points {
            slopes: first(&mut self.slopes),
            values: self.values.as_mut().map(first),
        }
    }

    /// Pieces of that length, the last of which may be shorter, and where each starts.
    fn pieces(mut self, length: usize) -> impl Iterator<Item = (usize, Points<'a>)> {
        let n = self.slopes.len();
        (0..n)
            .step_by(length)
            .map(move |start| (start, self.take(length)))
    }
}

fn points_in_parallel(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    points: Points<'_>,
) -> Result<()> {
    let n = g.len();
    parallel_each(points.pieces(piece(n, GRAIN, BLOCK)), |(start, points)| {
        piece_of_points(set, lookup, g, start, points);
    })
}

fn piece_of_points(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    start: usize,
    points: Points<'_>,
) {
    let range = start..start + points.slopes.len();
    let part = lookup.part(range.clone());
    on_this_thread(set, &part, &g[range], Some(points), None, g.len());
}

/// The sums on one thread, since their order is fixed, and the points on the others.
fn side_by_side(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    points: Points<'_>,
    sums: &mut [[f32; 2]],
) -> Result<()> {
    enum Part<'a> {
        Sums(&'a mut [[f32; 2]]),
        Points(usize, Points<'a>),
    }
    let n = g.len();
    let length = n
        .div_ceil(aten::threads() - 1)
        .max(GRAIN)
        .next_multiple_of(BLOCK);
    let pieces = points.pieces(length);
    let pieces = pieces.map(|(start, points)| Part::Points(start, points));
    parallel_each(
        std::iter::once(Part::Sums(sums)).chain(pieces),
        |part| match part {
            Part::Sums(sums) => on_this_thread(set, lookup, g, None, Some(sums), n),
            Part::Points(start, points) => piece_of_points(set, lookup, g, start, points),
        },
    )
}

/// `n` is the number of coordinates in all.
fn on_this_thread(
    set: InstructionSet,
    lookup: &Lookup<'_>,
    g: &[f32],
    mut points: Option<Points<'_>>,
    mut sums: Option<&mut [[f32; 2]]>,
    n: usize,
) {
    let Some(points) = points.as_mut().filter(|_| n >= BEYOND_CACHE) else {
        return dense(set, lookup, g, points, sums, false);
    };
    // Blocks that start where the gradient is aligned.
    let head = points.slopes.as_ptr().align_offset(simd::ALIGNMENT);
    let unaligned = points.take(head);
    let head = unaligned.slopes.len();
    let first = lookup.part(0..head);
    dense(
        set,
        &first,
        &g[..head],
        Some(unaligned),
        sums.as_deref_mut(),
        false,
    );
    let rest = lookup.part(head..g.len());
    let points = points.take(g.len());
    dense(set, &rest, &g[head..], Some(points), sums, true);
}

compiled_for_each_set! {
    fn dense(
        lookup: &Lookup<'_>,
        g: &[f32],
        points: Option<Points<'_>>,
        sums: Option<&mut [[f32; 2]]>,
        beyond: bool,
    ) {
        pass(lookup, g, points, sums, beyond);
    }
}

compiled_for_each_set! {
    fn sparse(lookup: &Lookup<'_>, g: &[f32], points: Option<Points<'_>>, sums: &mut Sparse) {
        pass(lookup, g, points, Some(sums), false);
    }
}

/// With `beyond`, the points are among those that do not fit the cache, and are stored past it where they are aligned.
#[inline(always)]
fn pass<S: PairedSums + ?Sized>(
    lookup: &Lookup<'_>,
    g: &[f32],
    points: Option<Points<'_>>,
    sums: Option<&mut S>,
    beyond: bool,
) {
    assert!(
        sums.as_ref()
            .is_none_or(|sums| sums.hold(lookup.table.len()))
    );
    match lookup.layers {
        None => blocks(Plain::new(lookup), lookup, g, points, sums, beyond),
        Some(selectors) => {
            blocks(
                Layered::new(lookup, selectors),
                lookup,
                g,
                points,
                sums,
                beyond,
            );
        }
    }
    if beyond {
        simd::fence();
    }
}

#[inline(always)]
fn blocks<L: Locate, S: PairedSums + ?Sized>(
    mut cells: L,
    lookup: &Lookup<'_>,
    g: &[f32],
    mut points: Option<Points<'_>>,
    mut sums: Option<&mut S>,
    beyond: bool,
) {
    let &Lookup {
        table,
        width,
        coords,
        ..
    } = lookup;
    let n = coords.len();
    let mut terms = Terms::new();
    for (k, (coords, g)) in coords.chunks(BLOCK).zip(g.chunks(BLOCK)).enumerate() {
        read_ahead(n, g);
        let (places, weights) = cells.locate(k * BLOCK, coords);
        let block = Block {
            axis: Axis::new(width),
            coords,
            g,
            places,
            weights,
        };
        let points = points.as_mut().map(|points| points.take(BLOCK));
        let sums = sums.as_deref_mut();
        // SAFETY: within its axis a cell is at most W - 2, or 0 for W = 1, where no weight is 1; `hold` was asked.
        unsafe {
            match width {
                1 => block.compute(&Singles(table), points, sums, &mut terms, beyond),
                _ => block.compute(&Pairs(table), points, sums, &mut terms, beyond),
            }
        }
    }
}

/// What flows to the entries, and where to.
struct Terms<P> {
    places: Aligned<[P; BLOCK]>,
    pairs: Aligned<[[f32; 2]; BLOCK]>,
}

impl<P: Place> Terms<P> {
    #[inline(always)]
    fn new() -> Terms<P> {
        Terms {
            places: Aligned([P::default(); BLOCK]),
            pairs: Aligned([[0.0; 2]; BLOCK]),
        }
    }

    #[inline(always)]
    fn set(&mut self, places: &[P; BLOCK], weights: &[f32; BLOCK], g: &[f32]) {
        let mut padded = [0.0; BLOCK];
        let g = g.as_array().unwrap_or_else(|| {
            padded[..g.len()].copy_from_slice(g);
            &padded
        });
        // Whole blocks, so that the compiler knows the length.
        for k in 0..BLOCK {
            let at_end = weights[k] == 1.0;
            let w = if at_end { 0.0 } else { weights[k] };
            let gm = g[k] * w;
            self.places.0[k] = places[k].after(at_end);
            // A NaN coordinate puts NaN into entry 0 alone, by way of g0.
            self.pairs.0[k] = [g[k] - gm, if w.is_nan() { 0.0 } else { gm }];
        }
    }
}

/// Up to a block of coordinates, located, with their cotangents.
struct Block<'a, P> {
    axis: Axis,
    coords: &'a [f32],
    g: &'a [f32],
    places: &'a [P; BLOCK],
    weights: &'a [f32; BLOCK],
}

impl<P: Place> Block<'_, P> {
    /// The points and the sums that are wanted.
    ///
    /// # Safety
    /// The places are those of cells of `entries`; every place is one that `sums` holds, and so is the next where the
    /// weight is 1; with `beyond` the caller fences.
    #[inline(always)]
    unsafe fn compute<E: Entries<P>, S: PairedSums + ?Sized>(
        &self,
        entries: &E,
        points: Option<Points<'_>>,
        sums: Option<&mut S>,
        terms: &mut Terms<P>,
        beyond: bool,
    ) {
        let Some(sums) = sums else {
            if let Some(points) = points {
                // SAFETY: the caller's promise.
                unsafe { self.evaluate(entries, points, beyond, |_| ()) };
            }
            return;
        };
        terms.set(self.places, self.weights, self.g);
        let (places, pairs) = (&terms.places.0, &terms.pairs.0[..self.g.len()]);
        let Some(points) = points else {
            // SAFETY: the caller's promise.
            return unsafe { add_in_order(places, pairs, sums) };
        };
        // Adding waits for memory, or for the last addition: in turn with the points it takes less time.
        let (lanes, last) = places[..pairs.len()].as_chunks::<LANES>();
        let (pairs, last_pairs) = pairs.as_chunks::<LANES>();
        // SAFETY: the caller's promise.
        unsafe {
            if mostly_repeated(places) {
                let mut run = Run::new(places[0], sums);
                self.evaluate(entries, points, beyond, |k| {
                    for (&place, pair) in lanes[k].iter().zip(&pairs[k]) {
                        run.add(place, pair, sums);
                    }
                });
                run.end(sums);
            } else {
                self.evaluate(entries, points, beyond, |k| {
                    add_each(&lanes[k], &pairs[k], sums);
                });
            }
            add_each(last, last_pairs, sums);
        }
    }

    /// The points; `then` is called after each of the first lanes that are full, with their number.
    ///
    /// # Safety
    /// The places are those of cells of `entries`; with `beyond` the caller fences.
    #[inline(always)]
    unsafe fn evaluate<E: Entries<P>>(
        &self,
        entries: &E,
        mut points: Points<'_>,
        beyond: bool,
        mut then: impl FnMut(usize),
    ) {
        // The coordinates strictly inside keep every bit of their slope, the others none.
        let mut kept = [0; BLOCK];
        for (kept, &u) in kept.iter_mut().zip(self.coords) {
            *kept = if (u > 0.0) & (u < self.axis.last) {
                u32::MAX
            } else {
                0
            };
        }
        let (places, weights) = (
            self.places.as_chunks::<LANES>().0,
            self.weights.as_chunks::<LANES>().0,
        );
        let kept = kept.as_chunks::<LANES>().0;
        let (full, last_g) = self.g.as_chunks::<LANES>();
        let aligned = |slice: &[f32]| beyond && slice.as_ptr().align_offset(simd::ALIGNMENT) == 0;
        let slopes_past = aligned(points.slopes);
        let values_past = points.values.as_deref().is_some_and(aligned);
        let (slopes, last_slopes) = points.slopes.as_chunks_mut::<LANES>();
        let mut values = points
            .values
            .as_mut()
            .map(|values| values.as_chunks_mut::<LANES>());
        let lanes = full.iter().zip(slopes).zip(places).zip(kept);
        for (k, (((g, out), places), kept)) in lanes.enumerate() {
            // SAFETY: the caller's promise.
            let (lower, upper) = unsafe { entries.load(places) };
            // SAFETY: the alignment was looked at, and lanes are whole multiples of it; the caller fences.
            unsafe { store(out, slopes_of(&lower, &upper, kept, g), slopes_past) };
            if let Some((values, _)) = &mut values {
                // SAFETY: as above.
                unsafe {
                    store(
                        &mut values[k],
                        interpolate(&lower, &upper, &weights[k]),
                        values_past,
                    )
                };
            }
            then(k);
        }
        let k = full.len();
        if !last_g.is_empty() {
            let mut g = [0.0; LANES];
            g[..last_g.len()].copy_from_slice(last_g);
            // SAFETY: as above; the lanes past the end are places of an earlier block, or 0.
            let (lower, upper) = unsafe { entries.load(&places[k]) };
            last_slopes.copy_from_slice(&slopes_of(&lower, &upper, &kept[k], &g)[..last_g.len()]);
            if let Some((_, last_values)) = &mut values {
                last_values
                    .copy_from_slice(&interpolate(&lower, &upper, &weights[k])[..last_g.len()]);
            }
        }
    }
}

/// # Safety
/// With `past_cache`, `out` is aligned to [`simd::ALIGNMENT`] and the caller fences.
#[inline(always)]
unsafe fn store(out: &mut [f32; LANES], lanes: [f32; LANES], past_cache: bool) {
    if past_cache {
        // SAFETY: the caller's promise.
        unsafe { simd::store_past_cache(out, &lanes) };
    } else {
        *out = lanes;
    }
}

/// `g * d` where `kept`, else +0.0.
#[inline(always)]
fn slopes_of(
    lower: &[f32; LANES],
    upper: &[f32; LANES],
    kept: &[u32; LANES],
    g: &[f32; LANES],
) -> [f32; LANES] {
    let mut slopes = [0.0; LANES];
    for k in 0..LANES {
        let slope = g[k] * (upper[k] - lower[k]);
        slopes[k] = f32::from_bits(slope.to_bits() & kept[k]);
    }
    slopes
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
            let of = |d_table, d_coords| {
                let outputs = VjpOutputs {
                    value: None,
                    d_table,
                    d_coords,
                };
                vjp(&lookup, &g, outputs).unwrap();
            };
            of(Some(&mut d_table), Some(&mut d_coords));
            of(Some(&mut table_alone), None);
            of(None, Some(&mut coords_alone));
            assert_eq!(d_table, table_alone);
            assert_eq!(d_coords, coords_alone);
        }
    }

    /// Results large enough to be stored past the cache are too slow for the reference: short ones, forced. Scattered
    /// places and those that stay, from aligned and other offsets on.
    #[test]
    fn stores_past_the_cache_are_the_same() {
        #[repr(align(32))]
        #[derive(Clone)]
        struct Aligned([f32; 1010]);
        const N: usize = 1003;
        let table: Vec<f32> = (0..50).map(|k| (k * k % 17) as f32).collect();
        let layers: Vec<f32> = (0..N).map(|k| (k % 6) as f32).collect();
        let g: Vec<f32> = (0..N).map(|k| (k % 13) as f32 * 0.3 - 1.7).collect();
        for (step, from) in [(7919, 0), (7919, 3), (1, 0), (1, 7)] {
            let coords: Vec<f32> = (0..N)
                .map(|k| (k * step % N) as f32 * 0.0512 - 0.5)
                .collect();
            for (width, layers) in [(50, None), (10, Some(&layers[..]))] {
                let lookup = Lookup {
                    table: &table,
                    width,
                    coords: &coords,
                    layers,
                };
                for &set in InstructionSet::available() {
                    let results = [N, BEYOND_CACHE].map(|n| {
                        let mut rooms = [Aligned([f32::NAN; 1010]), Aligned([f32::NAN; 1010])];
                        let [slopes, values] =
                            rooms.each_mut().map(|room| &mut room.0[from..][..N]);
                        let mut sums = vec![[0.0; 2]; 50];
                        let points = Points {
                            slopes,
                            values: Some(values),
                        };
                        on_this_thread(set, &lookup, &g, Some(points), Some(&mut sums), n);
                        let [slopes, values] = rooms.map(|room| room.0[from..][..N].to_vec());
                        (slopes, values, sums)
                    });
                    assert_eq!(results[0], results[1], "{set}, every {step}th, from {from}");
                }
            }
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
            let outputs = VjpOutputs {
                value: None,
                d_table: Some(&mut d_table),
                d_coords: Some(&mut d_coords),
            };
            runtime::with_instruction_set(set, || vjp(&lookup, &g, outputs)).unwrap();
            assert!(d_table[0].is_nan() && want_table[0].is_nan());
            assert_eq!(d_table[1..], want_table[1..], "{set}");
            assert_eq!(d_coords[..], want_coords[..], "{set}");
        }
    }
}
