//! Comparisons and roundings, element by element: `floor`, `clamp`, `min`, `max`, `abs`, `relu`. All are exact.
//!
//! NaN propagates, and zeros are ordered -0 < +0: IEEE 754-2019 `minimum` and `maximum`. libtorch's own give either
//! zero, by the length of the tensor, so these are built from comparisons and selections. Masked gradients select,
//! they do not multiply: no `0 * inf` becomes NaN.

use crate::aten::Tensor;
use crate::buffer::{Buffer, same_shape};
use crate::error::{Error, Result};
use crate::tape::{Tape, Var, VjpArgs};

impl Buffer {
    /// The largest integer that is not above the value.
    ///
    /// # Edge cases
    /// -0.0 stays -0.0; values from 2^23 up are integers and unchanged; -1e-45 gives -1.
    ///
    /// # Gradient
    /// Nothing flows: it adds nothing to what other paths bring.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let x = Buffer::from_slice(&[1.75, -1e-45, 1e8], &[3])?;
    /// assert_eq!(x.floor()?.to_vec()?, [1.0, -1.0, 1e8]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn floor(&self) -> Result<Buffer> {
        Ok(self.like(self.tensor().floor()?))
    }

    /// `minimum(maximum(self, lo), hi)`.
    ///
    /// # Edge cases
    /// NaN stays NaN; a zero at a zero bound becomes the bound where -0 < +0 says so.
    ///
    /// # Gradient
    /// `g` where `lo < self < hi`, both strict, else 0. (PyTorch's is `g` at the bound itself.)
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where a bound is NaN or `lo > hi`.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let x = Buffer::from_slice(&[-2.0, 0.5, f32::INFINITY], &[3])?;
    /// assert_eq!(x.clamp(0.0, 1.0)?.to_vec()?, [0.0, 0.5, 1.0]);
    /// assert!(x.clamp(1.0, 0.0).is_err());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn clamp(&self, lo: f32, hi: f32) -> Result<Buffer> {
        check_bounds("clamp", lo, hi)?;
        let x = self.tensor();
        // The bound replaces an equal value too, unless it is the zero that loses.
        let below = if lo.is_sign_negative() {
            x.lt(lo)?
        } else {
            x.le(lo)?
        };
        let raised = x.masked_fill(&below, lo)?;
        let above = if hi.is_sign_negative() {
            raised.ge(hi)?
        } else {
            raised.gt(hi)?
        };
        Ok(self.like(raised.masked_fill(&above, hi)?))
    }

    /// The smaller of two values (IEEE 754-2019 `minimum`).
    ///
    /// # Edge cases
    /// NaN where either is NaN; `min(-0, +0)` is -0.
    ///
    /// # Gradient
    /// `g` to the smaller; a tie gives each `g * 0.5`; where either is NaN, 0 to both.
    ///
    /// # Errors
    /// [`Error::Shape`] where the shapes differ.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let a = Buffer::from_slice(&[1.0, 0.0], &[2])?;
    /// let b = Buffer::from_slice(&[2.0, -0.0], &[2])?;
    /// let min = a.min(&b)?.to_vec()?;
    /// assert_eq!(min, [1.0, -0.0]);
    /// assert!(min[1].is_sign_negative());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn min(&self, other: &Buffer) -> Result<Buffer> {
        same_shape("min", self, other)?;
        let (a, b) = (self.tensor(), other.tensor());
        let smaller = b.greater(a)?;
        Ok(self.like(winner(a, b, &smaller, a)?))
    }

    /// The larger of two values (IEEE 754-2019 `maximum`).
    ///
    /// # Edge cases
    /// NaN where either is NaN; `max(-0, +0)` is +0.
    ///
    /// # Gradient
    /// `g` to the larger; a tie gives each `g * 0.5`; where either is NaN, 0 to both.
    ///
    /// # Errors
    /// [`Error::Shape`] where the shapes differ.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let a = Buffer::from_slice(&[1.0, -0.0], &[2])?;
    /// let b = Buffer::from_slice(&[2.0, 0.0], &[2])?;
    /// let max = a.max(&b)?.to_vec()?;
    /// assert_eq!(max, [2.0, 0.0]);
    /// assert!(max[1].is_sign_positive());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn max(&self, other: &Buffer) -> Result<Buffer> {
        same_shape("max", self, other)?;
        let (a, b) = (self.tensor(), other.tensor());
        let larger = a.greater(b)?;
        Ok(self.like(winner(a, b, &larger, b)?))
    }

    /// The absolute value: the sign bit cleared, of zeros too.
    ///
    /// # Gradient
    /// `g` where `self > 0`, `-g` where `self < 0`, else (at zero and NaN) 0.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// assert_eq!(Buffer::from_slice(&[-1.5, 2.0], &[2])?.abs()?.to_vec()?, [1.5, 2.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn abs(&self) -> Result<Buffer> {
        Ok(self.like(self.tensor().abs()?))
    }

    /// `maximum(self, +0)`: the rectified linear unit.
    ///
    /// # Edge cases
    /// NaN stays NaN; -0 gives +0.
    ///
    /// # Gradient
    /// `g` where `self > 0`, else 0.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// assert_eq!(Buffer::from_slice(&[-1.5, 2.0], &[2])?.relu()?.to_vec()?, [0.0, 2.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn relu(&self) -> Result<Buffer> {
        let x = self.tensor();
        Ok(self.like(x.masked_fill(&x.le(0.0)?, 0.0)?))
    }
}

fn check_bounds(op: &'static str, lo: f32, hi: f32) -> Result<()> {
    if lo <= hi {
        return Ok(());
    }
    let expected = "bounds lo <= hi, neither NaN".to_owned();
    Err(Error::InvalidArgument {
        op,
        expected,
        found: format!("lo = {lo}, hi = {hi}"),
    })
}

/// `a` where it beats `b`, where it is NaN, or where both are equal and `sign_of` (the operand whose negative sign
/// settles a tie of zeros for `a`) is negative; elsewhere `b`.
fn winner(a: &Tensor, b: &Tensor, a_wins: &Tensor, sign_of: &Tensor) -> Result<Tensor> {
    let tie = a.equal(b)?.logical_and(&sign_of.sign_bit()?)?;
    let choose_a = a_wins.logical_or(&tie)?.logical_or(&a.is_nan()?)?;
    a.select(&choose_a, b)
}

/// The gradient of the one of two operands that wins where `wins` is true.
fn share(g: &Buffer, wins: &Tensor, tie: &Tensor) -> Result<Buffer> {
    let halved = g
        .tensor()
        .mul_scalar(0.5)?
        .masked_fill(&tie.logical_not()?, 0.0)?;
    Ok(g.like(g.tensor().select(wins, &halved)?))
}

fn extremum_vjp(
    args: &VjpArgs<'_>,
    a_wins: &Tensor,
    b_wins: &Tensor,
) -> Result<Vec<Option<Buffer>>> {
    let tie = args.input(0)?.tensor().equal(args.input(1)?.tensor())?;
    let g = args.cotangent();
    Ok(vec![
        args.when_needed(0, || share(g, a_wins, &tie))?,
        args.when_needed(1, || share(g, b_wins, &tie))?,
    ])
}

/// `g` where the mask is true, else +0.0.
fn masked(g: &Buffer, mask: &Tensor) -> Result<Buffer> {
    Ok(g.like(g.tensor().masked_fill(&mask.logical_not()?, 0.0)?))
}

impl Tape {
    /// Records [`Buffer::floor`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn floor(&self, x: Var) -> Result<Var> {
        self.record("floor", &[x], |x| x[0].floor(), |_| Ok(vec![None]))
    }

    /// Records [`Buffer::clamp`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn clamp(&self, x: Var, lo: f32, hi: f32) -> Result<Var> {
        self.record(
            "clamp",
            &[x],
            |x| x[0].clamp(lo, hi),
            move |args| {
                let x = args.input(0)?.tensor();
                Ok(vec![Some(masked(
                    args.cotangent(),
                    &x.gt(lo)?.logical_and(&x.lt(hi)?)?,
                )?)])
            },
        )
    }

    /// Records [`Buffer::min`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn min(&self, a: Var, b: Var) -> Result<Var> {
        self.record(
            "min",
            &[a, b],
            |x| x[0].min(x[1]),
            |args| {
                let (a, b) = (args.input(0)?.tensor(), args.input(1)?.tensor());
                extremum_vjp(args, &b.greater(a)?, &a.greater(b)?)
            },
        )
    }

    /// Records [`Buffer::max`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn max(&self, a: Var, b: Var) -> Result<Var> {
        self.record(
            "max",
            &[a, b],
            |x| x[0].max(x[1]),
            |args| {
                let (a, b) = (args.input(0)?.tensor(), args.input(1)?.tensor());
                extremum_vjp(args, &a.greater(b)?, &b.greater(a)?)
            },
        )
    }

    /// Records [`Buffer::abs`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn abs(&self, x: Var) -> Result<Var> {
        self.record(
            "abs",
            &[x],
            |x| x[0].abs(),
            |args| {
                let (x, g) = (args.input(0)?.tensor(), args.cotangent());
                let negated = g.like(g.tensor().neg()?);
                let falling = masked(&negated, &x.lt(0.0)?)?;
                Ok(vec![Some(
                    g.like(g.tensor().select(&x.gt(0.0)?, falling.tensor())?),
                )])
            },
        )
    }

    /// Records [`Buffer::relu`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`].
    pub fn relu(&self, x: Var) -> Result<Var> {
        self.record(
            "relu",
            &[x],
            |x| x[0].relu(),
            |args| {
                Ok(vec![Some(masked(
                    args.cotangent(),
                    &args.input(0)?.tensor().gt(0.0)?,
                )?)])
            },
        )
    }
}

/// What the operations of this file mean.
#[allow(clippy::arithmetic_side_effects)] // software floats round
pub(crate) mod reference {
    use crate::binary32::{Binary32, map, same_length, zip};
    use crate::error::Result;

    const ZERO: Binary32 = Binary32::ZERO;

    /// The largest integer that is not above `x`. Nothing flows back.
    pub fn floor(x: &[f32]) -> Vec<f32> {
        map(x, Binary32::floor)
    }

    /// `minimum(maximum(x, lo), hi)`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) where a bound is NaN or `lo > hi`.
    pub fn clamp(x: &[f32], lo: f32, hi: f32) -> Result<Vec<f32>> {
        super::check_bounds("clamp", lo, hi)?;
        Ok(map(x, |x| x.maximum(lo.into()).minimum(hi.into())))
    }

    /// `g` where `lo < x < hi`, else +0.0.
    pub fn clamp_vjp(x: &[f32], lo: f32, hi: f32, g: &[f32]) -> Result<Vec<f32>> {
        super::check_bounds("clamp_vjp", lo, hi)?;
        zip("clamp_vjp", x, g, |x, g| {
            if Binary32::from(lo) < x && x < hi.into() {
                g
            } else {
                ZERO
            }
        })
    }

    /// IEEE 754-2019 `minimum`.
    pub fn min(a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
        zip("min", a, b, Binary32::minimum)
    }

    /// `g` to the smaller, `g * 0.5` to each at a tie, +0.0 where either is NaN.
    pub fn min_vjp(a: &[f32], b: &[f32], g: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        Ok((share("min_vjp", b, a, g)?, share("min_vjp", a, b, g)?))
    }

    /// IEEE 754-2019 `maximum`.
    pub fn max(a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
        zip("max", a, b, Binary32::maximum)
    }

    /// `g` to the larger, `g * 0.5` to each at a tie, +0.0 where either is NaN.
    pub fn max_vjp(a: &[f32], b: &[f32], g: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        Ok((share("max_vjp", a, b, g)?, share("max_vjp", b, a, g)?))
    }

    /// `g` where `high > low`, half of it where they are equal, else +0.0.
    fn share(op: &'static str, high: &[f32], low: &[f32], g: &[f32]) -> Result<Vec<f32>> {
        same_length(op, high.len(), g.len())?;
        let order = zip(op, high, low, |high, low| {
            Binary32::from(if high > low {
                1.0
            } else if high == low {
                0.5
            } else {
                0.0
            })
        })?;
        zip(
            op,
            &order,
            g,
            |order, g| if order == ZERO { ZERO } else { g * order },
        )
    }

    /// The absolute value.
    pub fn abs(x: &[f32]) -> Vec<f32> {
        map(x, Binary32::abs)
    }

    /// `g`, `-g` or (at zero and NaN) +0.0.
    pub fn abs_vjp(x: &[f32], g: &[f32]) -> Result<Vec<f32>> {
        zip("abs_vjp", x, g, |x, g| {
            if x > ZERO {
                g
            } else if x < ZERO {
                -g
            } else {
                ZERO
            }
        })
    }

    /// `maximum(x, +0)`.
    pub fn relu(x: &[f32]) -> Vec<f32> {
        map(x, |x| x.maximum(ZERO))
    }

    /// `g` where `x > 0`, else +0.0.
    pub fn relu_vjp(x: &[f32], g: &[f32]) -> Result<Vec<f32>> {
        zip("relu_vjp", x, g, |x, g| if x > ZERO { g } else { ZERO })
    }
}
