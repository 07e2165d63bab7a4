//! The fused form on the host: cells are located, read and evaluated in one go, a block at a time.
//!
//! The steps are numbered as in the contract. The first pass over a block locates the cells (steps 1 to 4) and leaves
//! indices and weights in the first-level cache; the second reads both entries of a cell with one 8-byte load, or from
//! registers where the table fits them, and evaluates (steps 5 to 8). An element takes the same operations wherever it
//! stands, so neither the instruction set nor the number of threads changes a bit.

mod cells;
mod entries;
mod forward;
mod gradient;
mod sums;

pub(crate) use forward::forward;
pub(crate) use gradient::vjp;

use std::ops::Range;

/// A lookup whose sizes were checked: at least one entry, axes of at most 2^24, a selector for each coordinate.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    /// All layers, one after the other.
    pub(crate) table: &'a [f32],
    pub(crate) width: usize,
    pub(crate) coords: &'a [f32],
    /// Where the table has layers: which one each coordinate reads.
    pub(crate) layers: Option<&'a [f32]>,
}

/// Where a VJP of a lookup writes what is wanted; each is written throughout.
#[derive(Debug, Default)]
pub struct VjpOutputs<'a> {
    /// The values, the bits of the lookup itself; along with `d_coords` they cost a fraction of a call of their own.
    pub value: Option<&'a mut [f32]>,
    /// The gradient of the table, of its length.
    pub d_table: Option<&'a mut [f32]>,
    /// The gradient of the coordinates.
    pub d_coords: Option<&'a mut [f32]>,
}

impl<'a> Lookup<'a> {
    /// The same for some of the coordinates.
    fn part(&self, range: Range<usize>) -> Lookup<'a> {
        Lookup {
            coords: &self.coords[range.clone()],
            layers: self.layers.map(|layers| &layers[range]),
            ..*self
        }
    }
}
