//! The fused forms on the host of what libtorch has no single exact call for.

use crate::error::Result;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::compiled_for_each_set;

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 64 * 1024;

/// The correctly rounded square root: the instruction's and the standard library's are, libtorch's is not.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(crate) fn sqrt(x: &[f32], out: &mut [f32]) -> Result<()> {
    let set = runtime::instruction_set();
    let length = piece(out.len(), GRAIN, 16);
    parallel_each(x.chunks(length).zip(out.chunks_mut(length)), |(x, out)| {
        sqrt_here(set, x, out);
    })
}

/// Adds `a * x` to `y`: the product is rounded, then the sum.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(crate) fn axpy(a: f32, x: &[f32], y: &mut [f32]) -> Result<()> {
    let set = runtime::instruction_set();
    let length = piece(y.len(), GRAIN, 16);
    parallel_each(x.chunks(length).zip(y.chunks_mut(length)), |(x, y)| {
        axpy_here(set, a, x, y);
    })
}

compiled_for_each_set! {
    fn sqrt_here(x: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = x.sqrt();
        }
    }
}

compiled_for_each_set! {
    fn axpy_here(a: f32, x: &[f32], y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    }
}
