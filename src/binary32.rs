//! IEEE 754 binary32 by integer arithmetic: what every operation of the crate means.
//!
//! Addition, subtraction, multiplication, division and rounding come from `rustc_apfloat`; the square root, which it
//! lacks, is correctly rounded here by an integer square root. Nothing in this file computes on an `f32`: one goes in
//! as bits and comes out as bits.

use std::cmp::Ordering;
use std::ops;

use rustc_apfloat::ieee::Single;
use rustc_apfloat::{Float, Round};

use crate::error::{Error, Result};

/// A binary32 value whose arithmetic is done in integers, rounded to nearest, ties to even.
///
/// NaN payloads and signs carry no meaning: results are compared as equal bits or both NaN.
///
/// ```
/// use torchlean::spec::Binary32;
/// let sum = Binary32::from(0.1) + Binary32::from(0.7); // the float32 nearest to the exact sum
/// assert_eq!(sum.to_bits(), 0x3f4c_cccd);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Binary32(Single);

impl From<f32> for Binary32 {
    fn from(value: f32) -> Self {
        Self::from_bits(value.to_bits())
    }
}

impl From<Binary32> for f32 {
    fn from(value: Binary32) -> Self {
        f32::from_bits(value.to_bits())
    }
}

impl Binary32 {
    /// Positive zero.
    pub const ZERO: Self = Self(Single::ZERO);

    /// The value with these bits.
    pub fn from_bits(bits: u32) -> Self {
        Self(Single::from_bits(u128::from(bits)))
    }

    /// The bits of the value.
    pub fn to_bits(self) -> u32 {
        // Single is 32 bits wide: the upper 96 are zero.
        Single::to_bits(self.0) as u32
    }

    /// An integer, rounded to nearest, ties to even (as `n as f32` does).
    pub fn from_integer(n: u64) -> Self {
        Self(Single::from_u128(u128::from(n)).value)
    }

    /// True for every NaN.
    pub fn is_nan(self) -> bool {
        self.0.is_nan()
    }

    /// The largest integer that is not above the value; the sign of a zero stays.
    pub fn floor(self) -> Self {
        Self(self.0.round_to_integral(Round::TowardNegative).value)
    }

    /// The absolute value (the sign bit cleared).
    pub fn abs(self) -> Self {
        Self(self.0.abs())
    }

    /// IEEE 754-2019 `maximum`: NaN wins, and -0 < +0.
    pub fn maximum(self, other: Self) -> Self {
        Self(self.0.maximum(other.0))
    }

    /// IEEE 754-2019 `minimum`: NaN wins, and -0 < +0.
    pub fn minimum(self, other: Self) -> Self {
        Self(self.0.minimum(other.0))
    }

    /// The integer part; the value must lie in the range of `i64` and not be NaN.
    pub(crate) fn truncate(self) -> i64 {
        let mut exact = false;
        self.0.to_i128_r(64, Round::TowardZero, &mut exact).value as i64
    }

    /// The correctly rounded square root; -0 stays -0, a negative value gives NaN.
    pub fn sqrt(self) -> Self {
        const FRACTION: u32 = 0x007f_ffff;
        let bits = self.to_bits();
        if self.is_nan() || bits << 1 == 0 || bits == f32::INFINITY.to_bits() {
            return self;
        }
        if bits >> 31 == 1 {
            return Self::from_bits(f32::NAN.to_bits());
        }
        // value = significand * 2^exponent
        let biased = (bits >> 23) as i32;
        let (significand, exponent) = match biased {
            0 => (u64::from(bits & FRACTION), -149),
            _ => (u64::from((bits & FRACTION) | (FRACTION + 1)), biased - 150),
        };
        // Shifted so that the root has 25 bits (24 and a rounding bit) and the exponent halves evenly.
        let mut shift = significand.leading_zeros() as i32 - (63 - 48);
        shift += (exponent - shift) & 1;
        let radicand = significand << shift;
        let root = radicand.isqrt();
        let inexact = root * root != radicand;
        let mut rounded = root >> 1;
        if root & 1 == 1 && (inexact || rounded & 1 == 1) {
            rounded += 1;
        }
        // rounded is in [2^23, 2^24]; adding it to the exponent field lets a carry move up by itself.
        let biased = (exponent - shift) / 2 + 1 + 150;
        Self::from_bits((((biased - 1) as u32) << 23) + rounded as u32)
    }
}

impl PartialEq for Binary32 {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl PartialOrd for Binary32 {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl ops::Neg for Binary32 {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

macro_rules! rounded_operator {
    ($($trait:ident $method:ident),*) => {$(
        impl ops::$trait for Binary32 {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self(ops::$trait::$method(self.0, other.0).value)
            }
        }
    )*};
}
rounded_operator!(Add add, Sub sub, Mul mul, Div div);

/// A reference body over a slice.
pub(crate) fn map(x: &[f32], body: impl Fn(Binary32) -> Binary32) -> Vec<f32> {
    x.iter().map(|&x| body(x.into()).into()).collect()
}

/// A reference body over two slices of one length.
pub(crate) fn zip(
    op: &'static str,
    a: &[f32],
    b: &[f32],
    body: impl Fn(Binary32, Binary32) -> Binary32,
) -> Result<Vec<f32>> {
    same_length(op, a.len(), b.len())?;
    Ok(a.iter()
        .zip(b)
        .map(|(&a, &b)| body(a.into(), b.into()).into())
        .collect())
}

/// The check of every reference body that takes slices side by side.
pub(crate) fn same_length(op: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Shape {
        op,
        expected: format!("slices of one length, {expected}"),
        found: vec![found],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_roots_at_the_edges() {
        for (x, root) in [
            (0x0000_0001, 0x1a35_04f3_u32), // 2^-149
            (0x007f_ffff, 0x1fff_ffff),     // the largest subnormal
            (0x0080_0000, 0x2000_0000),     // 2^-126
            (0x7f7f_ffff, 0x5f7f_ffff),     // the largest finite
            (0x4000_0000, 0x3fb5_04f3),     // 2
            (0x4080_0000, 0x4000_0000),     // 4
            (0x8000_0000, 0x8000_0000),     // -0
            (0x7f80_0000, 0x7f80_0000),     // inf
        ] {
            assert_eq!(
                Binary32::from_bits(x).sqrt().to_bits(),
                root,
                "sqrt of {x:08x}"
            );
        }
        assert!(Binary32::from(-1.0).sqrt().is_nan());
        assert!(Binary32::from(f32::NEG_INFINITY).sqrt().is_nan());
    }

    #[test]
    fn floor_keeps_the_sign_of_zero() {
        assert_eq!(Binary32::from(-0.0).floor().to_bits(), 0x8000_0000);
        assert_eq!(f32::from(Binary32::from_bits(0x8000_0001).floor()), -1.0); // -1e-45
    }
}
