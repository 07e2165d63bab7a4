//! What a lookup means: on slices, in software floats, the steps numbered as in the contract.

use super::super::index::reference::{accumulate, position};
use super::check_axis;
use crate::binary32::{Binary32, same_length};
use crate::error::{Error, Result};

/// Steps 1 to 4 for one coordinate, and its entries' places within the layer.
struct Cell {
    lower: usize,
    upper: usize,
    w: Binary32,
}

fn locate(u: f32, width: usize) -> Cell {
    let last = Binary32::from_integer(width as u64 - 1);
    let clamp = |x: Binary32| x.maximum(Binary32::ZERO).minimum(last);
    let c = clamp(u.into()); // 1
    let i = c.floor(); // 2
    let w = c - i; // 3
    let j = clamp(i + Binary32::from(1.0)); // 4
    Cell {
        lower: position(i, width),
        upper: position(j, width),
        w,
    }
}

/// Steps 5 to 8 in one layer.
fn evaluate(layer: &[f32], u: f32) -> f32 {
    let Cell { lower, upper, w } = locate(u, layer.len());
    let (v0, v1) = (Binary32::from(layer[lower]), Binary32::from(layer[upper])); // 5
    let d = v1 - v0; // 6
    let m = d * w; // 7
    (v0 + m).into() // 8
}

/// The coordinate's gradient: `g * d` strictly inside, else +0.0.
fn slope(layer: &[f32], cell: &Cell, u: f32, g: f32) -> f32 {
    let last = Binary32::from_integer(layer.len() as u64 - 1);
    let inside = Binary32::from(u) > Binary32::ZERO && Binary32::from(u) < last;
    let d = Binary32::from(layer[cell.upper]) - Binary32::from(layer[cell.lower]);
    if inside {
        (Binary32::from(g) * d).into()
    } else {
        0.0
    }
}

/// The table's gradient: both scatters, then their sum. `cells` gives each element's cell and its layer's start.
fn scatter(size: usize, cells: &[(Cell, usize)], g: &[f32]) -> Vec<f32> {
    let weighted = |g: f32, cell: &Cell| Binary32::from(g) * cell.w;
    let lower = cells.iter().zip(g).map(|((cell, start), &g)| {
        let g0 = Binary32::from(g) - weighted(g, cell);
        (start + cell.lower, g0.into())
    });
    let upper = cells
        .iter()
        .zip(g)
        .map(|((cell, start), &g)| (start + cell.upper, weighted(g, cell).into()));
    let zeros = vec![0.0; size];
    let (lower, upper) = (accumulate(zeros.clone(), lower), accumulate(zeros, upper));
    lower
        .into_iter()
        .zip(upper)
        .map(|(a, b)| (Binary32::from(a) + b.into()).into())
        .collect()
}

/// The table's piecewise linear function at every coordinate.
///
/// # Errors
/// [`Error::EmptyTable`]; [`Error::TableTooLarge`] above 2^24 entries.
///
/// ```
/// use torchlean::spec;
/// assert_eq!(spec::table_lookup(&[10.0, 20.0, 40.0], &[0.5, 1.25, 9.0])?, [15.0, 25.0, 40.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn table_lookup(table: &[f32], coords: &[f32]) -> Result<Vec<f32>> {
    check_axis("table_lookup", "width", table.len())?;
    Ok(coords.iter().map(|&u| evaluate(table, u)).collect())
}

/// The gradients of the table and of the coordinates, for a cotangent.
///
/// # Errors
/// As [`table_lookup`], and [`Error::Shape`] where the lengths of coordinates and cotangent differ.
///
/// ```
/// use torchlean::spec;
/// let (d_table, d_coords) = spec::table_lookup_vjp(&[10.0, 20.0, 40.0], &[0.5, 1.25], &[1.0, 1.0])?;
/// assert_eq!(d_table, [0.5, 1.25, 0.25]);
/// assert_eq!(d_coords, [10.0, 20.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn table_lookup_vjp(table: &[f32], coords: &[f32], g: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
    let op = "table_lookup_vjp";
    check_axis(op, "width", table.len())?;
    same_length(op, coords.len(), g.len())?;
    let cells: Vec<_> = coords
        .iter()
        .map(|&u| (locate(u, table.len()), 0))
        .collect();
    let d_coords = coords
        .iter()
        .zip(&cells)
        .zip(g)
        .map(|((&u, (cell, _)), &g)| slope(table, cell, u, g))
        .collect();
    Ok((scatter(table.len(), &cells, g), d_coords))
}

/// As [`table_lookup`], with a layer of `width` entries chosen per coordinate.
///
/// # Errors
/// [`Error::EmptyTable`]; [`Error::TableTooLarge`] where the width or the number of layers is above 2^24;
/// [`Error::Shape`] where the table is not whole layers or the lengths differ.
///
/// ```
/// use torchlean::spec;
/// let table = [0.0, 1.0, /**/ 0.0, 100.0];
/// assert_eq!(spec::layered_table_lookup(&table, 2, &[0.5, 0.5], &[0.0, 7.0])?, [0.5, 50.0]);
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn layered_table_lookup(
    table: &[f32],
    width: usize,
    coords: &[f32],
    layers: &[f32],
) -> Result<Vec<f32>> {
    let op = "layered_table_lookup";
    let count = layer_count(op, table, width)?;
    same_length(op, coords.len(), layers.len())?;
    let layer = |selector: f32| &table[position(selector.into(), count) * width..][..width];
    Ok(coords
        .iter()
        .zip(layers)
        .map(|(&u, &selector)| evaluate(layer(selector), u))
        .collect())
}

/// The gradients of the table and of the coordinates, for a cotangent.
///
/// # Errors
/// As [`layered_table_lookup`].
pub fn layered_table_lookup_vjp(
    table: &[f32],
    width: usize,
    coords: &[f32],
    layers: &[f32],
    g: &[f32],
) -> Result<(Vec<f32>, Vec<f32>)> {
    let op = "layered_table_lookup_vjp";
    let count = layer_count(op, table, width)?;
    same_length(op, coords.len(), layers.len())?;
    same_length(op, coords.len(), g.len())?;
    let start = |selector: f32| position(selector.into(), count) * width;
    let cells: Vec<_> = coords
        .iter()
        .zip(layers)
        .map(|(&u, &selector)| (locate(u, width), start(selector)))
        .collect();
    let d_coords = coords
        .iter()
        .zip(&cells)
        .zip(g)
        .map(|((&u, (cell, start)), &g)| slope(&table[*start..][..width], cell, u, g))
        .collect();
    Ok((scatter(table.len(), &cells, g), d_coords))
}

/// How many layers of `width` a slice has.
pub(super) fn layer_count(op: &'static str, table: &[f32], width: usize) -> Result<usize> {
    check_axis(op, "width", width)?;
    if !table.len().is_multiple_of(width) {
        let expected = format!("a table of whole layers of width {width}");
        return Err(Error::Shape {
            op,
            expected,
            found: vec![table.len()],
        });
    }
    check_axis(op, "number of layers", table.len() / width)?;
    Ok(table.len() / width)
}
