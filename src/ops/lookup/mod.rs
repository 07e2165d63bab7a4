//! Clamp-addressed linear interpolation: `table_lookup` and `layered_table_lookup`.
//!
//! For a table of width W and a coordinate u:
//!
//! 1. `c = clamp(u, 0, W-1)`, NaN stays NaN
//! 2. `i = floor(c)`
//! 3. `w = c - i`
//! 4. `j = clamp(i + 1, 0, W-1)`
//! 5. `v0 = table[position(i)]`, `v1 = table[position(j)]`
//! 6. `d = v1 - v0`
//! 7. `m = d * w`
//! 8. `v = v0 + m`
//!
//! Steps 1 to 4 are exact below 2^24; only 6, 7 and 8 round, each once, in that order, and nothing is fused.
//! `position` is that of the index family (a NaN index reads entry 0).
//!
//! The gradients, for a cotangent g: coordinates, `g * d` where `0 < u < W-1` (both strict), else +0.0; table, with
//! `gm = g * w` and `g0 = g - gm`, `scatter_add_at(W, i, g0) + scatter_add_at(W, j, gm)`, in that order. They recompute
//! steps 1 to 6 from the table and the coordinates, which the tape holds anyway: nothing is saved.

#[allow(clippy::arithmetic_side_effects)] // places within slices, which the checks before bound
pub(crate) mod host;
#[allow(clippy::arithmetic_side_effects)] // software floats round, and places lie within slices
pub(crate) mod reference;
pub(crate) mod slices;

use super::index::{scatter, to_index};
use crate::aten::Tensor;
use crate::buffer::{Buffer, Unwritten, same_shape};
use crate::error::{Error, Result};
use crate::tape::{Tape, Var, VjpArgs};

/// The longest table axis that float32 coordinates address exactly: 2^24.
pub const MAX_WIDTH: usize = 1 << 24;

impl Buffer {
    /// The table's piecewise linear function at every coordinate, in the coordinates' shape; `self` is the table, of
    /// rank 1.
    ///
    /// Coordinates count entries: 0 is the first, `W - 1` the last, 0.5 half-way between the first two. Outside that
    /// range the end entries hold. [`Grid`](crate::Grid) makes them from physical values. With `i = floor(u)` and
    /// `w = u - i` the value is `t[i] + (t[i + 1] - t[i]) * w`, rounded after each of the three operations; the same
    /// bits on every device.
    ///
    /// # Edge cases
    /// - A NaN coordinate gives NaN; infinite ones read the ends.
    /// - An infinite or NaN neighbour follows the formula even at a knot: `inf * 0` is NaN. So do signed zeros, and
    ///   entries whose difference overflows.
    /// - One entry: the constant function.
    /// - No coordinates: an empty result.
    ///
    /// # Gradient
    /// Coordinates: `g * (t[i + 1] - t[i])` strictly inside, at an interior knot the slope of the segment to its
    /// right, +0.0 at the ends, outside and for NaN. Table: `g - g * w` to entry `i` and `g * w` to entry `i + 1`; a NaN
    /// coordinate puts NaN into entry 0.
    ///
    /// # Order
    /// Table gradients add as [`scatter_add_at`](Buffer::scatter_add_at) does.
    ///
    /// # Errors
    /// [`Error::EmptyTable`]; [`Error::TableTooLarge`] above 2^24 entries; [`Error::Shape`] where the table is not of
    /// rank 1.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let table = Buffer::from_slice(&[10.0, 20.0, 40.0], &[3])?;
    /// let u = Buffer::from_slice(&[0.5, 1.25, 2.0, -3.0, f32::INFINITY], &[5])?;
    /// assert_eq!(table.table_lookup(&u)?.to_vec()?, [15.0, 25.0, 40.0, 10.0, 40.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn table_lookup(&self, coords: &Buffer) -> Result<Buffer> {
        let table = Table::plain("table_lookup", self)?;
        forward(&table, coords)
    }

    /// As [`table_lookup`](Buffer::table_lookup), into a buffer of the coordinates' shape that the caller reuses.
    ///
    /// # Errors
    /// As there; [`Error::Shape`] where `out` has another shape than the coordinates; [`Error::SharedStorage`] where
    /// something else holds its storage, the table or the coordinates among them. On an error of a check nothing has
    /// been written.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let table = Buffer::from_slice(&[10.0, 20.0, 40.0], &[3])?;
    /// let mut out = Buffer::zeros(&[2])?;
    /// for u in [[0.5, 1.25], [2.0, -3.0]] {
    ///     table.table_lookup_into(&Buffer::from_slice(&u, &[2])?, &mut out)?;
    /// }
    /// assert_eq!(out.to_vec()?, [40.0, 10.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn table_lookup_into(&self, coords: &Buffer, out: &mut Buffer) -> Result<()> {
        let op = "table_lookup_into";
        forward_into(op, &Table::plain(op, self)?, coords, out)
    }

    /// As [`table_lookup`](Buffer::table_lookup), with a layer of the table chosen per coordinate; `self` is the
    /// table, of shape `[L, W]`.
    ///
    /// The layer is `position(layer, L)`: truncated and clamped, so 1.9 reads layer 1, negative and NaN selectors the
    /// first layer, selectors past the end the last. The next entry never crosses into the next layer. `layers` has the
    /// coordinates' shape and gets no gradient. `L * W` may exceed 2^24: the flat index is formed in int64.
    ///
    /// # Errors
    /// [`Error::EmptyTable`] for no layers or no width; [`Error::TableTooLarge`] where either axis is above 2^24;
    /// [`Error::Shape`] where the table is not of rank 2 or the two inputs differ in shape.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let curves = Buffer::from_slice(&[0.0, 1.0, 2.0, /**/ 0.0, 100.0, 400.0], &[2, 3])?;
    /// let u = Buffer::from_slice(&[0.5, 0.5, 9.0], &[3])?;
    /// let layers = Buffer::from_slice(&[0.0, 1.9, -4.0], &[3])?;
    /// assert_eq!(curves.layered_table_lookup(&u, &layers)?.to_vec()?, [0.5, 50.0, 2.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn layered_table_lookup(&self, coords: &Buffer, layers: &Buffer) -> Result<Buffer> {
        let table = Table::layered("layered_table_lookup", self, coords, layers)?;
        forward(&table, coords)
    }

    /// As [`layered_table_lookup`](Buffer::layered_table_lookup), into a buffer that the caller reuses.
    ///
    /// # Errors
    /// As there and as [`table_lookup_into`](Buffer::table_lookup_into).
    pub fn layered_table_lookup_into(
        &self,
        coords: &Buffer,
        layers: &Buffer,
        out: &mut Buffer,
    ) -> Result<()> {
        let op = "layered_table_lookup_into";
        let table = Table::layered(op, self, coords, layers)?;
        forward_into(op, &table, coords, out)
    }
}

/// A checked table and how its entries are addressed.
struct Table<'a> {
    values: &'a Buffer,
    width: usize,
    layers: Option<Layers<'a>>,
}

struct Layers<'a> {
    count: usize,
    selectors: &'a Buffer,
}

/// The checks that the slices of the reference and the buffers share.
fn check_axis(op: &'static str, axis: &'static str, size: usize) -> Result<()> {
    match size {
        0 => Err(Error::EmptyTable { op }),
        1..=MAX_WIDTH => Ok(()),
        _ => Err(Error::TableTooLarge {
            op,
            axis,
            size,
            limit: MAX_WIDTH,
        }),
    }
}

impl<'a> Table<'a> {
    fn plain(op: &'static str, values: &'a Buffer) -> Result<Table<'a>> {
        let &[width] = values.shape() else {
            return Err(Error::Shape {
                op,
                expected: "a table of rank 1".to_owned(),
                found: values.shape().to_vec(),
            });
        };
        check_axis(op, "width", width)?;
        Ok(Table {
            values,
            width,
            layers: None,
        })
    }

    fn layered(
        op: &'static str,
        values: &'a Buffer,
        coords: &Buffer,
        selectors: &'a Buffer,
    ) -> Result<Table<'a>> {
        let &[count, width] = values.shape() else {
            let expected = "a table of rank 2, [layers, width]".to_owned();
            return Err(Error::Shape {
                op,
                expected,
                found: values.shape().to_vec(),
            });
        };
        check_axis(op, "number of layers", count)?;
        check_axis(op, "width", width)?;
        same_shape(op, coords, selectors)?;
        Ok(Table {
            values,
            width,
            layers: Some(Layers { count, selectors }),
        })
    }

    /// The last coordinate, W - 1: exact, since the width was checked.
    fn last(&self) -> f32 {
        self.width.saturating_sub(1) as f32
    }

    /// The lookup as the host's kernels take it.
    fn on_host<'b>(&'b self, coords: &'b Buffer) -> host::Lookup<'b> {
        host::Lookup {
            table: self.values.host_slice(),
            width: self.width,
            coords: coords.host_slice(),
            layers: self
                .layers
                .as_ref()
                .map(|layers| layers.selectors.host_slice()),
        }
    }

    /// The flat place of an entry of each element's own layer, for an index that was clamped: `position` of it is itself,
    /// or 0 for NaN.
    fn flat(&self, index: Tensor) -> Result<Tensor> {
        let column = index.nan_to_zero_()?;
        match &self.layers {
            None => column.truncate_short(), // widths go to 2^24
            Some(layers) => {
                let layer = to_index(layers.selectors.tensor(), layers.count)?;
                let start = layer.mul_integer(self.width as i64)?;
                start.add_(&column.truncate()?)
            }
        }
    }
}

/// Into a new buffer, in the form that holds.
fn forward(table: &Table<'_>, coords: &Buffer) -> Result<Buffer> {
    if !coords.fused() {
        return composed(table, coords);
    }
    let mut out = Unwritten::like(coords)?;
    host::forward(&table.on_host(coords), out.slice())?;
    Ok(out.written())
}

/// Into a buffer that is there, in the form that holds.
fn forward_into(
    op: &'static str,
    table: &Table<'_>,
    coords: &Buffer,
    out: &mut Buffer,
) -> Result<()> {
    if !coords.fused() {
        return out.overwrite(op, coords.shape(), || composed(table, coords));
    }
    let out = out.host_slice_mut(op, coords.shape())?;
    host::forward(&table.on_host(coords), out)
}

/// The gradients in the form that holds: of the table, and of the coordinates, where they are needed.
fn gradients(
    table: &Table<'_>,
    coords: &Buffer,
    g: &Buffer,
    needs: [bool; 2],
) -> Result<[Option<Buffer>; 2]> {
    if !coords.fused() {
        return composed_vjp(table, coords, g, needs);
    }
    let lookup = table.on_host(coords);
    let mut d_table = needs[0]
        .then(|| Unwritten::like(table.values))
        .transpose()?;
    let mut d_coords = needs[1].then(|| Unwritten::like(coords)).transpose()?;
    let into = host::VjpOutputs {
        value: None,
        d_table: d_table.as_mut().map(Unwritten::slice),
        d_coords: d_coords.as_mut().map(Unwritten::slice),
    };
    host::vjp(&lookup, g.host_slice(), into)?;
    Ok([d_table, d_coords].map(|gradient| gradient.map(Unwritten::written)))
}

/// Steps 1 to 4: where each coordinate lies.
struct Cells {
    /// The entry at or below the coordinate, flat.
    lower: Tensor,
    /// The next one, flat.
    upper: Tensor,
    /// The weight of the upper one.
    w: Tensor,
}

fn locate(table: &Table<'_>, coords: &Buffer) -> Result<Cells> {
    let c = coords.tensor().clamp(0.0, table.last())?; // 1
    let i = c.floor()?; // 2
    let w = c.sub_(&i)?; // 3
    let j = i.add_scalar(1.0)?.clamp_(0.0, table.last())?; // 4
    let upper = table.flat(j)?;
    let lower = table.flat(i)?;
    Ok(Cells { lower, upper, w })
}

/// The form made of ATen operations, which runs on every device.
fn composed(table: &Table<'_>, coords: &Buffer) -> Result<Buffer> {
    let Cells { lower, upper, w } = locate(table, coords)?;
    let v0 = table.values.tensor().index_select(&lower)?; // 5
    let v1 = table.values.tensor().index_select(&upper)?;
    let d = v1.sub_(&v0)?; // 6
    let m = d.mul_(&w)?; // 7
    Ok(coords.like(v0.add_(&m)?)) // 8
}

/// The gradients that are needed: of the table, and of the coordinates.
fn composed_vjp(
    table: &Table<'_>,
    coords: &Buffer,
    g: &Buffer,
    needs: [bool; 2],
) -> Result<[Option<Buffer>; 2]> {
    let Cells { lower, upper, w } = locate(table, coords)?;
    let mut gradients = [None, None];
    if needs[0] {
        let gm = w.mul_(g.tensor())?;
        let g0 = g.tensor().sub(&gm)?;
        let size = table.values.len();
        let sum = scatter(size, &lower, &g0)?.add_(&scatter(size, &upper, &gm)?)?;
        gradients[0] = Some(table.values.like(sum));
    }
    if needs[1] {
        let (u, entries) = (coords.tensor(), table.values.tensor());
        let upper = entries.index_select(&upper)?;
        let d = upper.sub_(&entries.index_select(&lower)?)?;
        let outside = u
            .gt(0.0)?
            .logical_and_(&u.lt(table.last())?)?
            .logical_not_()?;
        gradients[1] = Some(coords.like(d.mul_(g.tensor())?.masked_fill_(&outside, 0.0)?));
    }
    Ok(gradients)
}

impl Tape {
    /// Records [`Buffer::table_lookup`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn table_lookup(&self, table: Var, coords: Var) -> Result<Var> {
        self.record(
            "table_lookup",
            &[table, coords],
            |x| x[0].table_lookup(x[1]),
            |args| vjp(&Table::plain("table_lookup", args.input(0)?)?, args),
        )
    }

    /// Records [`Buffer::layered_table_lookup`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn layered_table_lookup(&self, table: Var, coords: Var, layers: Var) -> Result<Var> {
        let op = "layered_table_lookup";
        self.record(
            op,
            &[table, coords, layers],
            |x| x[0].layered_table_lookup(x[1], x[2]),
            move |args| {
                let mut gradients = vjp(
                    &Table::layered(op, args.input(0)?, args.input(1)?, args.input(2)?)?,
                    args,
                )?;
                gradients.push(None);
                Ok(gradients)
            },
        )
    }
}

fn vjp(table: &Table<'_>, args: &VjpArgs<'_>) -> Result<Vec<Option<Buffer>>> {
    let needs = [args.needs(0), args.needs(1)];
    Ok(gradients(table, args.input(1)?, args.cotangent(), needs)?.into())
}
