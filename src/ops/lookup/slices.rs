//! The lookups and their gradients on slices.

use super::check_axis;
pub use super::host::VjpOutputs;
use super::host::{self, Lookup};
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

/// What is wanted of the gradients of [`table_lookup`], for a cotangent `g` of the value, and of the value itself.
///
/// # Errors
/// As there, where `g` or an output has not the length of what it belongs to;
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory) for the sums of the table's gradient.
///
/// ```
/// use torchlean::host::{self, VjpOutputs};
/// let (mut value, mut d_table, mut d_coords) = ([0.0; 2], [0.0; 3], [0.0; 2]);
/// let wanted = VjpOutputs {
///     value: Some(&mut value),
///     d_table: Some(&mut d_table),
///     d_coords: Some(&mut d_coords), // or None, or `..Default::default()` for what is not wanted
/// };
/// host::table_lookup_vjp(&[10.0, 20.0, 40.0], &[0.5, 1.25], &[1.0, 1.0], wanted)?;
/// assert_eq!(value, [15.0, 25.0]);
/// assert_eq!(d_table, [0.5, 1.25, 0.25]);
/// assert_eq!(d_coords, [10.0, 20.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn table_lookup_vjp(
    table: &[f32],
    coords: &[f32],
    g: &[f32],
    outputs: VjpOutputs<'_>,
) -> Result<()> {
    let op = "table_lookup_vjp";
    vjp(op, &plain(op, table, coords)?, g, outputs)
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

/// What is wanted of the gradients of [`layered_table_lookup`] and of its value, as in [`table_lookup_vjp`].
///
/// # Errors
/// As there and as [`layered_table_lookup`].
pub fn layered_table_lookup_vjp(
    table: &[f32],
    width: usize,
    coords: &[f32],
    layers: &[f32],
    g: &[f32],
    outputs: VjpOutputs<'_>,
) -> Result<()> {
    let op = "layered_table_lookup_vjp";
    let lookup = layered(op, table, width, coords, layers)?;
    vjp(op, &lookup, g, outputs)
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

fn vjp(op: &'static str, lookup: &Lookup<'_>, g: &[f32], outputs: VjpOutputs<'_>) -> Result<()> {
    let (entries, n) = (lookup.table.len(), lookup.coords.len());
    same_length(op, n, g.len())?;
    let VjpOutputs {
        value,
        d_table,
        d_coords,
    } = &outputs;
    for (output, length) in [(value, n), (d_table, entries), (d_coords, n)] {
        if let Some(output) = output {
            same_length(op, length, output.len())?;
        }
    }
    host::vjp(lookup, g, outputs)
}
