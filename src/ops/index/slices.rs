//! `gather_at` and `scatter_add_at` on slices.

use super::host;
use crate::binary32::same_length;
use crate::error::{Error, Result};

/// `table[position(p)]` for every position, into `out`; see [`Buffer::gather_at`](crate::Buffer::gather_at).
///
/// # Errors
/// [`Error::EmptyTable`]; [`Error::Shape`] where `out` is not as long as the positions.
///
/// ```
/// use torchlean::host;
/// let mut out = [0.0; 3];
/// host::gather_at(&[10.0, 20.0, 30.0], &[1.99, f32::INFINITY, f32::NAN], &mut out)?;
/// assert_eq!(out, [20.0, 30.0, 10.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn gather_at(table: &[f32], positions: &[f32], out: &mut [f32]) -> Result<()> {
    let op = "gather_at";
    if table.is_empty() {
        return Err(Error::EmptyTable { op });
    }
    same_length(op, positions.len(), out.len())?;
    host::gather(table, positions, out)
}

/// Zeros with each value added at its position, in order, into `out`, whose length is the size; see
/// [`Buffer::scatter_add_at`](crate::Buffer::scatter_add_at).
///
/// # Errors
/// [`Error::EmptyTable`] where `out` is empty; [`Error::Shape`] where positions and values differ in length.
///
/// ```
/// use torchlean::host;
/// let mut out = [f32::NAN; 3];
/// host::scatter_add_at(&[0.0, 9.0, 2.0], &[1.0, 2.0, 3.0], &mut out)?;
/// assert_eq!(out, [1.0, 0.0, 5.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn scatter_add_at(positions: &[f32], values: &[f32], out: &mut [f32]) -> Result<()> {
    let op = "scatter_add_at";
    if out.is_empty() {
        return Err(Error::EmptyTable { op });
    }
    same_length(op, positions.len(), values.len())?;
    out.fill(0.0);
    host::scatter_add(positions, values, out);
    Ok(())
}
