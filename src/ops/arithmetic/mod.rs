//! Correctly rounded arithmetic, element by element: `add`, `sub`, `mul`, `div`, `neg`, `scale`, `sqrt`.
//!
//! Each is one IEEE 754 operation, rounded to nearest, ties to even; NaN, infinities, signed zeros and subnormals
//! are IEEE's. Shapes must agree: nothing is broadcast. The same bits on every device.

mod host;
mod step;

use crate::buffer::{Buffer, Unwritten, same_shape};
use crate::error::Result;
use crate::tape::{Tape, Var};

impl Buffer {
    /// `self + other`.
    ///
    /// # Gradient
    /// `(g, g)`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) where the shapes differ.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let a = Buffer::from_slice(&[1.0, f32::INFINITY], &[2])?;
    /// let b = Buffer::from_slice(&[2.0, f32::NEG_INFINITY], &[2])?;
    /// let sum = a.add(&b)?.to_vec()?;
    /// assert_eq!(sum[0], 3.0);
    /// assert!(sum[1].is_nan());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn add(&self, other: &Buffer) -> Result<Buffer> {
        same_shape("add", self, other)?;
        Ok(self.like(self.tensor().add(other.tensor())?))
    }

    /// `self - other`.
    ///
    /// # Gradient
    /// `(g, -g)`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) where the shapes differ.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let a = Buffer::from_slice(&[1.0, 2.0], &[2])?;
    /// let b = Buffer::from_slice(&[4.0, 2.0], &[2])?;
    /// assert_eq!(a.sub(&b)?.to_vec()?, [-3.0, 0.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn sub(&self, other: &Buffer) -> Result<Buffer> {
        same_shape("sub", self, other)?;
        Ok(self.like(self.tensor().sub(other.tensor())?))
    }

    /// `self * other`.
    ///
    /// # Gradient
    /// `(g * other, g * self)`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) where the shapes differ.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let a = Buffer::from_slice(&[3.0, -0.0], &[2])?;
    /// let b = Buffer::from_slice(&[0.5, 2.0], &[2])?;
    /// assert_eq!(a.mul(&b)?.to_vec()?, [1.5, -0.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn mul(&self, other: &Buffer) -> Result<Buffer> {
        same_shape("mul", self, other)?;
        Ok(self.like(self.tensor().mul(other.tensor())?))
    }

    /// `self / other`, a true division.
    ///
    /// # Edge cases
    /// IEEE's: `x / 0` is an infinity, `0 / 0` NaN.
    ///
    /// # Gradient
    /// With `y = self / other`: `(g / other, -((g / other) * y))`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) where the shapes differ.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let a = Buffer::from_slice(&[1.0, 1.0], &[2])?;
    /// let b = Buffer::from_slice(&[4.0, -0.0], &[2])?;
    /// assert_eq!(a.div(&b)?.to_vec()?, [0.25, f32::NEG_INFINITY]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn div(&self, other: &Buffer) -> Result<Buffer> {
        same_shape("div", self, other)?;
        Ok(self.like(self.tensor().div(other.tensor())?))
    }

    /// `-self`: the sign bit flipped, of zeros too.
    ///
    /// # Gradient
    /// `-g`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let x = Buffer::from_slice(&[1.0, 0.0], &[2])?;
    /// assert!(x.neg()?.to_vec()?.iter().all(|y| y.is_sign_negative()));
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn neg(&self) -> Result<Buffer> {
        Ok(self.like(self.tensor().neg()?))
    }

    /// `self * c` for one number.
    ///
    /// # Gradient
    /// `g * c`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// assert_eq!(Buffer::from_slice(&[1.0, 2.0], &[2])?.scale(-0.5)?.to_vec()?, [-0.5, -1.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn scale(&self, c: f32) -> Result<Buffer> {
        Ok(self.like(self.tensor().mul_scalar(c)?))
    }

    /// The correctly rounded square root.
    ///
    /// # Edge cases
    /// -0 gives -0, a negative value NaN, +inf itself.
    ///
    /// # Gradient
    /// With `y = sqrt(self)`: `g / (2 * y)` where `self > 0`, else 0.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) alone.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// assert_eq!(Buffer::from_slice(&[2.25, -0.0], &[2])?.sqrt()?.to_vec()?, [1.5, -0.0]);
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn sqrt(&self) -> Result<Buffer> {
        if !self.fused() {
            return Ok(self.like(self.tensor().sqrt()?));
        }
        let mut out = Unwritten::like(self)?;
        host::sqrt(self.host_slice(), out.slice())?;
        Ok(out.written())
    }
}

impl Tape {
    /// Records [`Buffer::add`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn add(&self, a: Var, b: Var) -> Result<Var> {
        self.record(
            "add",
            &[a, b],
            |x| x[0].add(x[1]),
            |args| {
                let g = args.cotangent();
                Ok(vec![
                    args.when_needed(0, || Ok(g.clone()))?,
                    args.when_needed(1, || Ok(g.clone()))?,
                ])
            },
        )
    }

    /// Records [`Buffer::sub`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn sub(&self, a: Var, b: Var) -> Result<Var> {
        self.record(
            "sub",
            &[a, b],
            |x| x[0].sub(x[1]),
            |args| {
                let g = args.cotangent();
                Ok(vec![
                    args.when_needed(0, || Ok(g.clone()))?,
                    args.when_needed(1, || g.neg())?,
                ])
            },
        )
    }

    /// Records [`Buffer::mul`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn mul(&self, a: Var, b: Var) -> Result<Var> {
        self.record(
            "mul",
            &[a, b],
            |x| x[0].mul(x[1]),
            |args| {
                let (a, b, g) = (args.input(0)?, args.input(1)?, args.cotangent());
                Ok(vec![
                    args.when_needed(0, || g.mul(b))?,
                    args.when_needed(1, || g.mul(a))?,
                ])
            },
        )
    }

    /// Records [`Buffer::div`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn div(&self, a: Var, b: Var) -> Result<Var> {
        self.record(
            "div",
            &[a, b],
            |x| x[0].div(x[1]),
            |args| {
                let quotient = args.cotangent().div(args.input(1)?)?;
                let db = args.when_needed(1, || quotient.mul(args.output())?.neg())?;
                Ok(vec![args.when_needed(0, || Ok(quotient))?, db])
            },
        )
    }

    /// Records [`Buffer::neg`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn neg(&self, x: Var) -> Result<Var> {
        self.record(
            "neg",
            &[x],
            |x| x[0].neg(),
            |args| Ok(vec![Some(args.cotangent().neg()?)]),
        )
    }

    /// Records [`Buffer::scale`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn scale(&self, x: Var, c: f32) -> Result<Var> {
        self.record(
            "scale",
            &[x],
            |x| x[0].scale(c),
            move |args| Ok(vec![Some(args.cotangent().scale(c)?)]),
        )
    }

    /// Records [`Buffer::sqrt`].
    ///
    /// # Errors
    /// As there, and [`Error::ForeignVar`](crate::Error::ForeignVar).
    pub fn sqrt(&self, x: Var) -> Result<Var> {
        self.record(
            "sqrt",
            &[x],
            |x| x[0].sqrt(),
            |args| {
                let (x, y, g) = (args.input(0)?, args.output(), args.cotangent());
                let gradient = g.div(&y.scale(2.0)?)?;
                let outside = x.tensor().gt(0.0)?.logical_not()?;
                Ok(vec![Some(
                    x.like(gradient.tensor().masked_fill(&outside, 0.0)?),
                )])
            },
        )
    }
}

/// What the operations of this file mean.
#[allow(clippy::arithmetic_side_effects)] // software floats round
pub(crate) mod reference {
    use crate::binary32::{Binary32, map, zip};
    use crate::error::Result;

    /// `a + b`.
    pub fn add(a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
        zip("add", a, b, |a, b| a + b)
    }

    /// `(g, g)`.
    pub fn add_vjp(g: &[f32]) -> (Vec<f32>, Vec<f32>) {
        (g.to_vec(), g.to_vec())
    }

    /// `a - b`.
    pub fn sub(a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
        zip("sub", a, b, |a, b| a - b)
    }

    /// `(g, -g)`.
    pub fn sub_vjp(g: &[f32]) -> (Vec<f32>, Vec<f32>) {
        (g.to_vec(), neg(g))
    }

    /// `a * b`.
    pub fn mul(a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
        zip("mul", a, b, |a, b| a * b)
    }

    /// `(g * b, g * a)`.
    pub fn mul_vjp(a: &[f32], b: &[f32], g: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        Ok((mul(g, b)?, mul(g, a)?))
    }

    /// `a / b`.
    pub fn div(a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
        zip("div", a, b, |a, b| a / b)
    }

    /// `(g / b, -((g / b) * (a / b)))`.
    pub fn div_vjp(a: &[f32], b: &[f32], g: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        let quotient = div(g, b)?;
        let db = neg(&mul(&quotient, &div(a, b)?)?);
        Ok((quotient, db))
    }

    /// `-x`.
    pub fn neg(x: &[f32]) -> Vec<f32> {
        map(x, |x| -x)
    }

    /// `-g`.
    pub fn neg_vjp(g: &[f32]) -> Vec<f32> {
        neg(g)
    }

    /// `x * c`.
    pub fn scale(x: &[f32], c: f32) -> Vec<f32> {
        map(x, |x| x * c.into())
    }

    /// `g * c`.
    pub fn scale_vjp(c: f32, g: &[f32]) -> Vec<f32> {
        scale(g, c)
    }

    /// The correctly rounded square root.
    pub fn sqrt(x: &[f32]) -> Vec<f32> {
        map(x, Binary32::sqrt)
    }

    /// `g / (2 * sqrt(x))` where `x > 0`, else +0.0.
    pub fn sqrt_vjp(x: &[f32], g: &[f32]) -> Result<Vec<f32>> {
        let two = Binary32::from(2.0);
        zip("sqrt_vjp", x, g, |x, g| {
            if x > Binary32::ZERO {
                g / (x.sqrt() * two)
            } else {
                Binary32::ZERO
            }
        })
    }
}
