//! What reading and adding at places means: on slices, in software floats.

use super::check_indices;
use crate::binary32::{Binary32, same_length};
use crate::error::{Error, Result, reserved};

/// `position(p, size)`, its steps numbered as in the contract; the size is at least 1.
pub(crate) fn position(p: Binary32, size: usize) -> usize {
    let top = Binary32::from_integer(1 << 62);
    // 1. NaN becomes 0.
    let p = if p.is_nan() { Binary32::ZERO } else { p };
    // 2. Clamp in float.
    let p = p.maximum(Binary32::ZERO).minimum(top);
    // 3. Truncate, 4. clamp in integers.
    p.truncate().clamp(0, size as i64 - 1) as usize
}

/// `table[position(p)]` for every position.
///
/// # Errors
/// [`Error::EmptyTable`].
///
/// ```
/// use torchlean::spec;
/// assert_eq!(spec::gather_at(&[10.0, 20.0, 30.0], &[1.99, f32::INFINITY, f32::NAN])?, [20.0, 30.0, 10.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn gather_at(table: &[f32], positions: &[f32]) -> Result<Vec<f32>> {
    if table.is_empty() {
        return Err(Error::EmptyTable { op: "gather_at" });
    }
    Ok(positions
        .iter()
        .map(|&p| table[position(p.into(), table.len())])
        .collect())
}

/// The table's gradient: `scatter_add_at(size, positions, g)`.
///
/// # Errors
/// As [`scatter_add_at`].
pub fn gather_at_vjp(table: &[f32], positions: &[f32], g: &[f32]) -> Result<Vec<f32>> {
    scatter_add_at(table.len(), positions, g)
}

/// Zeros of `size`, with each value added at its position, in order.
///
/// # Errors
/// [`Error::EmptyTable`] for a size of zero; [`Error::Shape`] where the lengths differ; [`Error::OutOfMemory`].
///
/// ```
/// use torchlean::spec;
/// assert_eq!(spec::scatter_add_at(3, &[0.0, 9.0, 2.0], &[1.0, 2.0, 3.0])?, [1.0, 0.0, 5.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn scatter_add_at(size: usize, positions: &[f32], values: &[f32]) -> Result<Vec<f32>> {
    let op = "scatter_add_at";
    if size == 0 {
        return Err(Error::EmptyTable { op });
    }
    same_length(op, positions.len(), values.len())?;
    let places = positions.iter().map(|&p| position(p.into(), size));
    let mut zeros = reserved(op, size)?;
    zeros.resize(size, 0.0);
    Ok(accumulate(zeros, places.zip(values.iter().copied())))
}

/// The values' gradient: `gather_at(g, positions)`.
///
/// # Errors
/// As [`gather_at`].
pub fn scatter_add_at_vjp(positions: &[f32], g: &[f32]) -> Result<Vec<f32>> {
    gather_at(g, positions)
}

/// Adds values at places, in order.
pub(crate) fn accumulate(
    mut sums: Vec<f32>,
    terms: impl Iterator<Item = (usize, f32)>,
) -> Vec<f32> {
    for (place, value) in terms {
        sums[place] = (Binary32::from(sums[place]) + value.into()).into();
    }
    sums
}

/// The rows of length `row` that `indices` name.
///
/// # Errors
/// [`Error::Shape`] where `x` is not whole rows; [`Error::IndexOutOfRange`]; [`Error::OutOfMemory`].
pub fn index_select(x: &[f32], row: usize, indices: &[i64]) -> Result<Vec<f32>> {
    let op = "index_select";
    let count = rows(op, x, row)?;
    check_indices(op, indices, count)?;
    let mut selected = reserved(op, indices.len().saturating_mul(row))?;
    for &index in indices {
        selected.extend_from_slice(&x[index as usize * row..][..row]);
    }
    Ok(selected)
}

/// The gradient of `x`: `g` added to zeros, at the rows that `indices` name.
///
/// # Errors
/// As [`scatter_add`].
pub fn index_select_vjp(x: &[f32], row: usize, indices: &[i64], g: &[f32]) -> Result<Vec<f32>> {
    scatter_add(&vec![0.0; x.len()], row, indices, g)
}

/// `base` with the rows of `values` added to the rows of length `row` that `indices` name, in order.
///
/// # Errors
/// [`Error::Shape`] where `base` is not whole rows or `values` not one row per index; [`Error::IndexOutOfRange`].
pub fn scatter_add(base: &[f32], row: usize, indices: &[i64], values: &[f32]) -> Result<Vec<f32>> {
    let op = "scatter_add";
    let count = rows(op, base, row)?;
    check_indices(op, indices, count)?;
    same_length(op, indices.len().saturating_mul(row), values.len())?;
    let rows = indices.iter().zip(values.chunks(row.max(1)));
    let terms =
        rows.flat_map(|(&index, values)| (index as usize * row..).zip(values.iter().copied()));
    Ok(accumulate(base.to_vec(), terms))
}

/// `g` for the base, the rows of `g` that `indices` name for the values.
///
/// # Errors
/// As [`index_select`].
pub fn scatter_add_vjp(row: usize, indices: &[i64], g: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
    Ok((g.to_vec(), index_select(g, row, indices)?))
}

/// How many rows of length `row` a slice has.
fn rows(op: &'static str, x: &[f32], row: usize) -> Result<usize> {
    match x.len().checked_rem(row) {
        Some(0) => Ok(x.len() / row),
        _ => Err(Error::Shape {
            op,
            expected: format!("whole rows of length {row}, at least 1"),
            found: vec![x.len()],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_the_contract() {
        let at = |p: f32, size| position(p.into(), size);
        for (p, expected) in [
            (2.99, 2),
            (-0.5, 0),
            (f32::NAN, 0),
            (f32::NEG_INFINITY, 0),
            (-1e30, 0),
            (1e30, 4),
            (f32::INFINITY, 4),
            (9.223372e18, 4),
            (-9.223372e18, 4 - 4),
            (5.0, 4),
            (1e-45, 0),
            (-0.0, 0),
        ] {
            assert_eq!(at(p, 5), expected, "position of {p}");
        }
        // Above 2^24 a float clamp to size - 1 would round up past the end, or down so that the last is never read.
        assert_eq!(at(f32::INFINITY, 16_777_220), 16_777_219);
        assert_eq!(at(16_777_220.0, 16_777_220), 16_777_219);
        assert_eq!(at(f32::INFINITY, 16_777_218), 16_777_217);
        assert_eq!(at(16_777_216.0, 16_777_218), 16_777_216);
    }
}
