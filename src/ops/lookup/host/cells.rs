//! Where coordinates lie, and the entries there.

use super::Lookup;
use super::entries::LANES;
use crate::ops::index::host::{Place, position};
use crate::simd;

/// How many elements the passes take at a time: indices and weights stay in the first-level cache.
pub(super) use crate::ops::index::host::BLOCK;

/// How far ahead of a block inputs are asked for.
const AHEAD: usize = 2048;

/// From how many coordinates on: fewer are found in the second-level cache, where asking costs a tenth of the lookup.
const STREAMED: usize = 128 * 1024;

/// Asks for what inputs of a block will be read soon, where there are `n` elements in all.
#[inline(always)]
pub(super) fn read_ahead(n: usize, block: &[f32]) {
    if n >= STREAMED {
        simd::prefetch(block, AHEAD, BLOCK);
    }
}

/// Values at the start of a cache line: vectors that lie across two lines cost a tenth of a lookup.
#[repr(align(64))]
pub(super) struct Aligned<T>(pub(super) T);

/// A table's axis in coordinates.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    /// W - 1: exact, as widths go to 2^24.
    pub(super) last: f32,
    /// The last cell that has two entries: W - 2, or 0 where there is but one entry.
    cell: f32,
}

impl Axis {
    pub(super) fn new(width: usize) -> Axis {
        Axis {
            last: (width - 1) as f32,
            cell: width.saturating_sub(2) as f32,
        }
    }
}

/// Where the coordinates of a lookup lie, a block at a time.
pub(super) trait Locate {
    /// A place in the table, or in all layers one after the other.
    type Place: Place;

    /// Steps 1 to 4 for up to a block of coordinates, the first of which is number `start`: the places of their cells,
    /// and the weights of the upper entries. Past the end there are places of an earlier block, or 0.
    fn locate(&mut self, start: usize, coords: &[f32]) -> (&[Self::Place; BLOCK], &[f32; BLOCK]);
}

/// Cells of one axis.
pub(super) struct Plain {
    axis: Axis,
    /// How many coordinates there are in all.
    n: usize,
    cells: Aligned<[u32; BLOCK]>,
    weights: Aligned<[f32; BLOCK]>,
}

impl Plain {
    #[inline(always)]
    pub(super) fn new(lookup: &Lookup<'_>) -> Plain {
        Plain {
            axis: Axis::new(lookup.width),
            n: lookup.coords.len(),
            cells: Aligned([0; BLOCK]),
            weights: Aligned([0.0; BLOCK]),
        }
    }
}

impl Locate for Plain {
    type Place = u32;

    #[inline(always)]
    fn locate(&mut self, _: usize, coords: &[f32]) -> (&[u32; BLOCK], &[f32; BLOCK]) {
        read_ahead(self.n, coords);
        locate(self.axis, coords, &mut self.cells.0, &mut self.weights.0);
        (&self.cells.0, &self.weights.0)
    }
}

/// Cells of the layer that each coordinate selects.
pub(super) struct Layered<'a> {
    plain: Plain,
    selectors: &'a [f32],
    count: usize,
    width: usize,
    flat: Aligned<[u64; BLOCK]>,
}

impl<'a> Layered<'a> {
    #[inline(always)]
    pub(super) fn new(lookup: &Lookup<'a>, selectors: &'a [f32]) -> Layered<'a> {
        Layered {
            plain: Plain::new(lookup),
            selectors,
            count: lookup.table.len() / lookup.width,
            width: lookup.width,
            flat: Aligned([0; BLOCK]),
        }
    }
}

impl Locate for Layered<'_> {
    type Place = u64;

    #[inline(always)]
    fn locate(&mut self, start: usize, coords: &[f32]) -> (&[u64; BLOCK], &[f32; BLOCK]) {
        let selectors = &self.selectors[start..start + coords.len()];
        read_ahead(self.plain.n, selectors);
        let (cells, weights) = self.plain.locate(start, coords);
        flatten(selectors, self.count, self.width, cells, &mut self.flat.0);
        (&self.flat.0, weights)
    }
}

/// Steps 1 to 4: the cell of each coordinate, at most W - 2, and the weight of its upper entry.
///
/// At and past the last entry the weight is 1, which it is nowhere else: there [`interpolate`] makes both entries the last
/// one. A NaN coordinate has cell 0 and weight NaN.
#[inline(always)]
fn locate(axis: Axis, coords: &[f32], cells: &mut [u32], weights: &mut [f32]) {
    let n = coords.len();
    let (cells, weights) = (&mut cells[..n], &mut weights[..n]);
    // Written so that each choice is one `maxps` or `minps`, which return the second operand for NaN.
    for k in 0..n {
        let u = coords[k];
        let held = if u > 0.0 { u } else { 0.0 };
        let held = if held < axis.cell { held } else { axis.cell };
        // SAFETY: `held` is no NaN and lies in 0 ..= 2^24.
        let cell = unsafe { held.to_int_unchecked::<i32>() };
        // The sign is cleared for -0.0, of which the floor would be -0.0 and the weight +0.0.
        let c = (if 0.0 > u { 0.0 } else { u }).abs();
        let c = if axis.last < c { axis.last } else { c };
        cells[k] = cell as u32;
        weights[k] = c - cell as f32;
    }
}

/// `position(layer, count) * width + cell`, in 64 bits: it may exceed what 32 hold.
#[inline(always)]
fn flatten(selectors: &[f32], count: usize, width: usize, cells: &[u32], flat: &mut [u64]) {
    let n = selectors.len();
    let (cells, flat) = (&cells[..n], &mut flat[..n]);
    for k in 0..n {
        let layer = position(selectors[k], count);
        flat[k] = u64::from(layer) * u64::from(width as u32) + u64::from(cells[k]);
    }
}

/// Steps 6 to 8, and before them the end of the axis: a weight of 1 makes both entries the last.
#[inline(always)]
pub(super) fn interpolate(
    lower: &[f32; LANES],
    upper: &[f32; LANES],
    weights: &[f32; LANES],
) -> [f32; LANES] {
    let mut values = [0.0; LANES];
    for k in 0..LANES {
        let w = weights[k];
        let v0 = if w == 1.0 { upper[k] } else { lower[k] };
        let d = upper[k] - v0; // 6
        let m = d * w; // 7: at the end d is +0.0 or NaN, and so is m whether w is 0 or 1
        values[k] = v0 + m; // 8
    }
    values
}
