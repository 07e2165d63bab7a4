//! `sum`, `mean` and `mse`: a whole buffer to one number of rank 0.
//!
//! # Order
//! With determinism off ([`runtime::deterministic`](crate::runtime::deterministic)) the sum is the SDK's, whose bits
//! depend on threads, CPU and device. With it on, the sum is a fold: with `n` elements left and `h = ceil(n / 2)`,
//! element `k` takes `x[k] + x[k + h]` for `k < n - h`, until one is left. That is the same on every device and for
//! any number of threads, `log2(n)` additions deep, and has a reference.

mod host;

use crate::aten::Tensor;
use crate::buffer::{Buffer, Unwritten, same_shape};
use crate::error::Result;
use crate::runtime;
use crate::tape::{Tape, Var};

impl Buffer {
    /// The sum of all elements, rank 0; +0.0 for none.
    ///
    /// # Order
    /// The SDK's, or with determinism on a fixed fold: see [`runtime::deterministic`](crate::runtime::deterministic).
    ///
    /// # Gradient
    /// `g` for every element.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// assert_eq!(Buffer::from_slice(&[1.0, 2.0, 4.0], &[3])?.sum()?.item()?, 7.0);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn sum(&self) -> Result<Buffer> {
        let sum = match (runtime::deterministic()?, self.len()) {
            (_, 0) => return Buffer::zeros(&[]),
            (true, n) => fold(self.tensor(), n)?,
            // Summed over a shape of rank 0 libtorch's result has rank 0: one element either way.
            (false, _) => self.tensor().sum()?.view(&[1])?,
        };
        Ok(Buffer::new(sum, []))
    }

    /// `sum * (1 / n)`, rank 0; NaN for no elements.
    ///
    /// # Order
    /// As [`sum`](Buffer::sum).
    ///
    /// # Gradient
    /// `g * (1 / n)` for every element.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// assert_eq!(Buffer::from_slice(&[1.0, 2.0, 4.0, 5.0], &[4])?.mean()?.item()?, 3.0);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn mean(&self) -> Result<Buffer> {
        self.sum()?.scale(1.0 / self.len() as f32)
    }

    /// The mean squared error: the mean of `r * r` with `r = self - target`.
    ///
    /// # Order
    /// As [`sum`](Buffer::sum).
    ///
    /// # Gradient
    /// `r * (g * (2 / n))` for `self` and its negative for `target`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) where the shapes differ.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let a = Buffer::from_slice(&[1.0, 5.0], &[2])?;
    /// let b = Buffer::from_slice(&[3.0, 5.0], &[2])?;
    /// assert_eq!(a.mse(&b)?.item()?, 2.0);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn mse(&self, target: &Buffer) -> Result<Buffer> {
        same_shape("mse", self, target)?;
        if !self.fused() {
            let r = self.sub(target)?;
            return r.mul(&r)?.mean();
        }
        let mut squares = Unwritten::like(self)?;
        host::squares(self.host_slice(), target.host_slice(), squares.slice())?;
        squares.written().mean()
    }

    /// This one element, for every element of `shape`.
    fn spread(&self, shape: &[usize]) -> Result<Buffer> {
        let n: usize = shape.iter().product();
        Ok(Buffer::new(self.tensor().expand(n as i64)?, shape))
    }
}

/// The fixed fold of `n >= 1` elements.
fn fold(x: &Tensor, mut n: usize) -> Result<Tensor> {
    let left = x.copy()?;
    while n > 1 {
        let (half, rest) = (n.div_ceil(2), n / 2);
        let upper = left.narrow(half as i64, rest as i64)?;
        left.narrow(0, rest as i64)?.add_in_place(&upper)?;
        n = half;
    }
    left.narrow(0, 1)?.copy()
}

/// `r * (g * (2 / n))` with `r = x - target`.
fn mse_vjp(x: &Buffer, target: &Buffer, g: &Buffer) -> Result<Buffer> {
    let factor = 2.0 / x.len() as f32;
    if !x.fused() {
        let r = x.sub(target)?;
        // One element against many: the only broadcast of the crate.
        return Ok(x.like(r.tensor().mul(g.scale(factor)?.tensor())?));
    }
    let weight = g.item()? * factor;
    let mut out = Unwritten::like(x)?;
    host::weighted(x.host_slice(), target.host_slice(), weight, out.slice())?;
    Ok(out.written())
}

impl Tape {
    /// Records [`Buffer::sum`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn sum(&self, x: Var) -> Result<Var> {
        self.record(
            "sum",
            &[x],
            |x| x[0].sum(),
            |args| Ok(vec![Some(args.cotangent().spread(args.input(0)?.shape())?)]),
        )
    }

    /// Records [`Buffer::mean`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn mean(&self, x: Var) -> Result<Var> {
        self.record(
            "mean",
            &[x],
            |x| x[0].mean(),
            |args| {
                let x = args.input(0)?;
                Ok(vec![Some(
                    args.cotangent()
                        .scale(1.0 / x.len() as f32)?
                        .spread(x.shape())?,
                )])
            },
        )
    }

    /// Records [`Buffer::mse`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn mse(&self, x: Var, target: Var) -> Result<Var> {
        self.record(
            "mse",
            &[x, target],
            |x| x[0].mse(x[1]),
            |args| {
                let (x, target) = (args.input(0)?, args.input(1)?);
                let gradient = mse_vjp(x, target, args.cotangent())?;
                let negative = args.when_needed(1, || gradient.neg())?;
                Ok(vec![args.when_needed(0, || Ok(gradient))?, negative])
            },
        )
    }
}

/// What the operations of this file mean (with determinism on).
#[allow(clippy::arithmetic_side_effects)] // software floats round
pub(crate) mod reference {
    use super::super::arithmetic::reference::{mul, neg, scale, sub};
    use crate::binary32::{Binary32, map, same_length};
    use crate::error::Result;

    /// The fold: +0.0 for nothing.
    pub fn sum(x: &[f32]) -> f32 {
        let mut left: Vec<Binary32> = x.iter().map(|&x| x.into()).collect();
        while left.len() > 1 {
            let half = left.len().div_ceil(2);
            for k in 0..left.len() - half {
                left[k] = left[k] + left[k + half];
            }
            left.truncate(half);
        }
        left.first().map_or(0.0, |&sum| sum.into())
    }

    /// `g` for each element.
    pub fn sum_vjp(x: &[f32], g: f32) -> Vec<f32> {
        map(x, |_| g.into())
    }

    /// `sum * (1 / n)`.
    pub fn mean(x: &[f32]) -> f32 {
        times(sum(x), 1.0, x.len())
    }

    /// `g * (1 / n)` for each of the `n` elements.
    pub fn mean_vjp(x: &[f32], g: f32) -> Vec<f32> {
        sum_vjp(x, times(g, 1.0, x.len()))
    }

    /// The mean of `(a - b)^2`.
    pub fn mse(a: &[f32], b: &[f32]) -> Result<f32> {
        same_length("mse", a.len(), b.len())?;
        let r = sub(a, b)?;
        Ok(mean(&mul(&r, &r)?))
    }

    /// `r * (g * (2 / n))` and its negative, with `r = a - b`.
    pub fn mse_vjp(a: &[f32], b: &[f32], g: f32) -> Result<(Vec<f32>, Vec<f32>)> {
        same_length("mse_vjp", a.len(), b.len())?;
        let da = scale(&sub(a, b)?, times(g, 2.0, a.len()));
        let db = neg(&da);
        Ok((da, db))
    }

    /// `x * (c / n)`.
    fn times(x: f32, c: f32, n: usize) -> f32 {
        (Binary32::from(x) * (Binary32::from(c) / Binary32::from_integer(n as u64))).into()
    }
}

#[cfg(test)]
mod tests {
    use super::reference;

    #[test]
    fn the_fold_pairs_the_halves() {
        // (a + d) + c ; b + e, written out for five elements: ((a + d) + c) + (b + e)
        let (a, b, c, d, e) = (1e8, 3.0, -1e8, 5.0, 7.0);
        assert_eq!(reference::sum(&[a, b, c, d, e]), ((a + d) + c) + (b + e));
        assert_eq!(reference::sum(&[]).to_bits(), 0);
        assert_eq!(reference::sum(&[-0.0]).to_bits(), (-0.0_f32).to_bits());
        assert!(reference::mean(&[]).is_nan());
    }
}
