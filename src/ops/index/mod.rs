//! Reading and adding at places: `gather_at` and `scatter_add_at` at float32 positions, each other's VJP, and
//! `index_select` and `scatter_add` at integers from the host.
//!
//! # Positions
//! `position(p, size)`: 1. NaN becomes 0. 2. Clamp in float to `[0, 2^62]`, both exact. 3. Truncate to int64.
//! 4. Clamp in int64 to `[0, size - 1]`. Both clamps are needed: on the host libtorch converts +inf and everything
//! from 2^63 up to the most negative int64, and a float clamp to `size - 1` is off by one above 2^24, where `size - 1`
//! rounds. So +inf and 1e30 read the last entry, -inf and -1e30 the first, 2.99 entry 2 and -0.5 entry 0. Positions
//! stay on the device: nothing here reads them back.
//!
//! # Order
//! On the host both scatters add in the order of the source, starting from what is there (+0.0 for
//! `scatter_add_at`). On CUDA they are the SDK's `index_add_`, repeatable from run to run with determinism on.

#[allow(clippy::arithmetic_side_effects)] // places within slices, which the checks before bound
pub(crate) mod host;
#[allow(clippy::arithmetic_side_effects)] // software floats round, and places lie within slices
pub(crate) mod reference;
pub(crate) mod slices;

use crate::aten::Tensor;
use crate::buffer::{Buffer, Unwritten, elements, same_shape};
use crate::error::{Error, Result};
use crate::runtime;
use crate::tape::{Tape, Var};

impl Buffer {
    /// `table[position(p)]` for every position, in the positions' shape; `self` is the table, of rank 1.
    ///
    /// # Edge cases
    /// Positions are truncated and clamped, never wrapped; NaN reads entry 0, +inf the last entry. Tables above
    /// 2^24 entries are addressed exactly where float32 has the position. Empty positions give an empty result.
    ///
    /// # Gradient
    /// `scatter_add_at(size, positions, g)` for the table, none for the positions.
    ///
    /// # Errors
    /// [`Error::EmptyTable`]; [`Error::Shape`] where the table is not of rank 1.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let table = Buffer::from_slice(&[10.0, 20.0, 30.0], &[3])?;
    /// let p = Buffer::from_slice(&[1.99, -7.0, f32::INFINITY, f32::NAN], &[2, 2])?;
    /// let read = table.gather_at(&p)?;
    /// assert_eq!(read.shape(), [2, 2]);
    /// assert_eq!(read.to_vec()?, [20.0, 10.0, 30.0, 10.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn gather_at(&self, positions: &Buffer) -> Result<Buffer> {
        let size = table_size("gather_at", self)?;
        if !positions.fused() {
            let index = to_index(positions.tensor(), size)?;
            return Ok(positions.like(self.tensor().index_select(&index)?));
        }
        let mut out = Unwritten::like(positions)?;
        host::gather(self.host_slice(), positions.host_slice(), out.slice())?;
        Ok(out.written())
    }

    /// As [`gather_at`](Buffer::gather_at), into a buffer of the positions' shape that the caller reuses.
    ///
    /// # Errors
    /// As there; [`Error::Shape`] where `out` has another shape than the positions; [`Error::SharedStorage`] where
    /// something else holds its storage.
    pub fn gather_at_into(&self, positions: &Buffer, out: &mut Buffer) -> Result<()> {
        let op = "gather_at_into";
        let size = table_size(op, self)?;
        if !positions.fused() {
            return out.overwrite(op, positions.shape(), || {
                let index = to_index(positions.tensor(), size)?;
                Ok(positions.like(self.tensor().index_select(&index)?))
            });
        }
        let out = out.host_slice_mut(op, positions.shape())?;
        host::gather(self.host_slice(), positions.host_slice(), out)
    }

    /// Zeros of `size`, with each value added at its position; rank 1.
    ///
    /// # Edge cases
    /// Positions as in [`gather_at`](Buffer::gather_at); no positions give zeros.
    ///
    /// # Order
    /// On the host the values are added in order, starting from +0.0. On CUDA the order is the SDK's; with
    /// determinism on it repeats from run to run.
    ///
    /// # Gradient
    /// `gather_at(g, positions)` for the values, none for the positions.
    ///
    /// # Errors
    /// [`Error::EmptyTable`] for a size of zero; [`Error::Shape`] where positions and values differ in shape;
    /// [`Error::OutOfMemory`].
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let p = Buffer::from_slice(&[0.0, 2.0, 2.7, 9.0], &[4])?;
    /// let v = Buffer::from_slice(&[1.0, 2.0, 3.0, 4.0], &[4])?;
    /// assert_eq!(Buffer::scatter_add_at(3, &p, &v)?.to_vec()?, [1.0, 0.0, 9.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn scatter_add_at(size: usize, positions: &Buffer, values: &Buffer) -> Result<Buffer> {
        let op = "scatter_add_at";
        if size == 0 {
            return Err(Error::EmptyTable { op });
        }
        elements(op, &[size])?;
        same_shape(op, positions, values)?;
        if !positions.fused() {
            let index = to_index(positions.tensor(), size)?;
            let sums = scatter(size, &index, values.tensor()).map_err(|error| error.in_op(op))?;
            return Ok(Buffer::new(sums, [size]));
        }
        let mut sums = Unwritten::new([size]).map_err(|error| error.in_op(op))?;
        sums.slice().fill(0.0);
        host::scatter_add(positions.host_slice(), values.host_slice(), sums.slice());
        Ok(sums.written())
    }

    /// The rows of the first axis that `indices` name, in that order: shape `[indices.len(), rest ..]`.
    ///
    /// # Gradient
    /// `scatter_add` of `g` into zeros.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis (negative ones do not count from the end);
    /// [`Error::Shape`] for rank 0.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let x = Buffer::from_slice(&[1.0, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.index_select(&[1, 1, 0])?.to_vec()?, [3.0, 4.0, 3.0, 4.0, 1.0, 2.0]);
    /// assert!(x.index_select(&[2]).is_err());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn index_select(&self, indices: &[i64]) -> Result<Buffer> {
        let op = "index_select";
        let rows = rows(op, self)?;
        check_indices(op, indices, rows.count)?;
        let shape = [&[indices.len()], &self.shape()[1..]].concat();
        let selected = elements(op, &shape)? as i64;
        let index = Tensor::from_integers(indices, runtime::device()?)?;
        let values = rows
            .of(self.tensor())?
            .index_select(&index)?
            .view(&[selected])?;
        Ok(Buffer::new(values, shape))
    }

    /// `self` with the rows of `values` added to the rows that `indices` name; `values` has the shape
    /// `[indices.len(), rest ..]`.
    ///
    /// # Order
    /// As [`scatter_add_at`](Buffer::scatter_add_at), starting from the row of `self`.
    ///
    /// # Gradient
    /// `g` for the base, `index_select(g, indices)` for the values.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`]; [`Error::Shape`] for rank 0 or values of another shape.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let base = Buffer::from_slice(&[1.0, 2.0], &[2])?;
    /// let values = Buffer::from_slice(&[10.0, 20.0, 30.0], &[3])?;
    /// assert_eq!(base.scatter_add(&[1, 0, 1], &values)?.to_vec()?, [21.0, 42.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn scatter_add(&self, indices: &[i64], values: &Buffer) -> Result<Buffer> {
        let op = "scatter_add";
        let rows = rows(op, self)?;
        check_indices(op, indices, rows.count)?;
        let shape = [&[indices.len()], &self.shape()[1..]].concat();
        if values.shape() != shape {
            let expected = format!("values of shape {shape:?}, one row per index");
            return Err(Error::Shape {
                op,
                expected,
                found: values.shape().to_vec(),
            });
        }
        let index = Tensor::from_integers(indices, runtime::device()?)?;
        let rows_of_values = Rows {
            count: indices.len(),
            length: rows.length,
        };
        let sum = rows
            .of(self.tensor())?
            .index_add(&index, &rows_of_values.of(values.tensor())?)?;
        Ok(self.like(sum.view(&[self.len() as i64])?))
    }
}

/// The size of a table of rank 1 with at least one entry.
fn table_size(op: &'static str, table: &Buffer) -> Result<usize> {
    match *table.shape() {
        [0] => Err(Error::EmptyTable { op }),
        [size] => Ok(size),
        _ => Err(Error::Shape {
            op,
            expected: "a table of rank 1".to_owned(),
            found: table.shape().to_vec(),
        }),
    }
}

/// `position(p, size)` of the module's contract, for a size of at least 1.
pub(crate) fn to_index(positions: &Tensor, size: usize) -> Result<Tensor> {
    let float = positions.nan_to_zero()?.clamp_(0.0, 2.0_f32.powi(62))?;
    float
        .truncate()?
        .clamp_integer_(0, size.saturating_sub(1) as i64)
}

/// Zeros of `size` with the values added at the indices.
pub(crate) fn scatter(size: usize, index: &Tensor, values: &Tensor) -> Result<Tensor> {
    Tensor::zeros(size as i64, runtime::device()?)?.index_add_(index, values)
}

/// A buffer seen as rows along its first axis.
struct Rows {
    count: usize,
    length: usize,
}

impl Rows {
    fn of(&self, flat: &Tensor) -> Result<Tensor> {
        flat.view(&[self.count as i64, self.length as i64])
    }
}

fn rows(op: &'static str, x: &Buffer) -> Result<Rows> {
    match x.shape() {
        [] => Err(Error::Shape {
            op,
            expected: "rank 1 or more".to_owned(),
            found: vec![],
        }),
        [count, rest @ ..] => Ok(Rows {
            count: *count,
            length: rest.iter().product(),
        }),
    }
}

fn check_indices(op: &'static str, indices: &[i64], size: usize) -> Result<()> {
    match indices
        .iter()
        .position(|&index| !usize::try_from(index).is_ok_and(|index| index < size))
    {
        Some(place) => Err(Error::IndexOutOfRange {
            op,
            place,
            index: indices[place],
            size,
        }),
        None => Ok(()),
    }
}

impl Tape {
    /// Records [`Buffer::gather_at`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn gather_at(&self, table: Var, positions: Var) -> Result<Var> {
        self.record(
            "gather_at",
            &[table, positions],
            |x| x[0].gather_at(x[1]),
            |args| {
                let (table, positions) = (args.input(0)?, args.input(1)?);
                let back = || Buffer::scatter_add_at(table.len(), positions, args.cotangent());
                Ok(vec![args.when_needed(0, back)?, None])
            },
        )
    }

    /// Records [`Buffer::scatter_add_at`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn scatter_add_at(&self, size: usize, positions: Var, values: Var) -> Result<Var> {
        let forward = |x: &[&Buffer]| Buffer::scatter_add_at(size, x[0], x[1]);
        self.record("scatter_add_at", &[positions, values], forward, |args| {
            let back = || args.cotangent().gather_at(args.input(0)?);
            Ok(vec![None, args.when_needed(1, back)?])
        })
    }

    /// Records [`Buffer::index_select`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn index_select(&self, x: Var, indices: &[i64]) -> Result<Var> {
        let saved = indices.to_vec();
        self.record(
            "index_select",
            &[x],
            |x| x[0].index_select(indices),
            move |args| {
                let zeros = Buffer::zeros(args.input(0)?.shape())?;
                Ok(vec![Some(zeros.scatter_add(&saved, args.cotangent())?)])
            },
        )
    }

    /// Records [`Buffer::scatter_add`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn scatter_add(&self, base: Var, indices: &[i64], values: Var) -> Result<Var> {
        let saved = indices.to_vec();
        self.record(
            "scatter_add",
            &[base, values],
            |x| x[0].scatter_add(indices, x[1]),
            move |args| {
                let g = args.cotangent();
                Ok(vec![
                    args.when_needed(0, || Ok(g.clone()))?,
                    args.when_needed(1, || g.index_select(&saved))?,
                ])
            },
        )
    }
}
