//! The lookups and their gradients on slices.

use super::check_axis;
use super::host::{self, Gradients, Lookup};
use super::reference::layer_count;
use crate::binary32::same_length;
use crate::error::Result;

/// The table's piecewise linear function at every coordinate, into `out`; see
/// [`Buffer::table_lookup`](crate::Buffer::table_lookup).
///
/// # Errors
/// [`Error::EmptyTable`](crate::Error::EmptyTable); [`Error::TableTooLarge`](crate::Error::TableTooLarge) above 2^24
/// entries; [`Error::Shape`](crate::Error::Shape) where `out` is not as long as the coordinates.
///
/// ```
/// use torchlean::host;
/// let mut out = [0.0; 2];
/// host::table_lookup(&[10.0, 20.0, 40.0], &[0.5, 1.25], &mut out)?;
/// assert_eq!(out, [15.0, 25.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn table_lookup(table: &[f32], coords: &[f32], out: &mut [f32]) -> Result<()> {
    let op = "table_lookup";
    let lookup = plain(op, table, coords)?;
    same_length(op, coords.len(), out.len())?;
    host::forward(&lookup, out)
}

/// The gradients of [`table_lookup`] that are asked for, for a cotangent `g`: of the table and of the coordinates.
///
/// # Errors
/// As there, where `g` or a gradient has not the length of what it belongs to;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for the sums of the table's gradient.
///
/// ```
/// use torchlean::host;
/// let (mut d_table, mut d_coords) = ([0.0; 3], [0.0; 2]);
/// let (table, u, g) = ([10.0, 20.0, 40.0], [0.5, 1.25], [1.0, 1.0]);
/// host::table_lookup_vjp(&table, &u, &g, Some(&mut d_table), Some(&mut d_coords))?;
/// assert_eq!(d_table, [0.5, 1.25, 0.25]);
/// assert_eq!(d_coords, [10.0, 20.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn table_lookup_vjp(
    table: &[f32],
    coords: &[f32],
    g: &[f32],
    d_table: Option<&mut [f32]>,
    d_coords: Option<&mut [f32]>,
) -> Result<()> {
    let op = "table_lookup_vjp";
    vjp(op, &plain(op, table, coords)?, g, d_table, d_coords)
}

/// As [`table_lookup`], with a layer of `width` entries chosen per coordinate; see
/// [`Buffer::layered_table_lookup`](crate::Buffer::layered_table_lookup).
///
/// # Errors
/// As [`table_lookup`]; [`Error::TableTooLarge`](crate::Error::TableTooLarge) for too many layers too;
/// [`Error::Shape`](crate::Error::Shape) where the table is not whole layers or the lengths differ.
///
/// ```
/// use torchlean::host;
/// let mut out = [0.0; 2];
/// host::layered_table_lookup(&[0.0, 1.0, /**/ 0.0, 100.0], 2, &[0.5, 0.5], &[0.0, 7.0], &mut out)?;
/// assert_eq!(out, [0.5, 50.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn layered_table_lookup(
    table: &[f32],
    width: usize,
    coords: &[f32],
    layers: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let op = "layered_table_lookup";
    let lookup = layered(op, table, width, coords, layers)?;
    same_length(op, coords.len(), out.len())?;
    host::forward(&lookup, out)
}

/// The gradients of [`layered_table_lookup`] that are asked for, as in [`table_lookup_vjp`].
///
/// # Errors
/// As there and as [`layered_table_lookup`].
pub fn layered_table_lookup_vjp(
    table: &[f32],
    width: usize,
    coords: &[f32],
    layers: &[f32],
    g: &[f32],
    d_table: Option<&mut [f32]>,
    d_coords: Option<&mut [f32]>,
) -> Result<()> {
    let op = "layered_table_lookup_vjp";
    let lookup = layered(op, table, width, coords, layers)?;
    vjp(op, &lookup, g, d_table, d_coords)
}

fn plain<'a>(op: &'static str, table: &'a [f32], coords: &'a [f32]) -> Result<Lookup<'a>> {
    check_axis(op, "width", table.len())?;
    Ok(Lookup {
        table,
        width: table.len(),
        coords,
        layers: None,
    })
}

fn layered<'a>(
    op: &'static str,
    table: &'a [f32],
    width: usize,
    coords: &'a [f32],
    layers: &'a [f32],
) -> Result<Lookup<'a>> {
    layer_count(op, table, width)?;
    same_length(op, coords.len(), layers.len())?;
    Ok(Lookup {
        table,
        width,
        coords,
        layers: Some(layers),
    })
}

fn vjp(
    op: &'static str,
    lookup: &Lookup<'_>,
    g: &[f32],
    d_table: Option<&mut [f32]>,
    d_coords: Option<&mut [f32]>,
) -> Result<()> {
    same_length(op, lookup.coords.len(), g.len())?;
    if let Some(d_table) = &d_table {
        same_length(op, lookup.table.len(), d_table.len())?;
    }
    if let Some(d_coords) = &d_coords {
        same_length(op, lookup.coords.len(), d_coords.len())?;
    }
    let gradients = Gradients {
        table: d_table,
        coords: d_coords,
    };
    host::vjp(lookup, g, gradients)
}
