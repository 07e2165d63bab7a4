//! The fused forms on the host: the differences of `mse` are not kept.

use crate::error::Result;
use crate::runtime;
use crate::runtime::parallel::{parallel_each, piece};
use crate::simd::compiled_for_each_set;

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 64 * 1024;

/// `r * r` with `r = a - b`.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(super) fn squares(a: &[f32], b: &[f32], out: &mut [f32]) -> Result<()> {
    let set = runtime::instruction_set();
    let length = piece(out.len(), GRAIN, 16);
    let inputs = a.chunks(length).zip(b.chunks(length));
    parallel_each(inputs.zip(out.chunks_mut(length)), |((a, b), out)| {
        squares_here(set, a, b, out);
    })
}

/// `r * weight` with `r = a - b`.
///
/// # Errors
/// libtorch's, where its threads cannot be had.
pub(super) fn weighted(a: &[f32], b: &[f32], weight: f32, out: &mut [f32]) -> Result<()> {
    let set = runtime::instruction_set();
    let length = piece(out.len(), GRAIN, 16);
    let inputs = a.chunks(length).zip(b.chunks(length));
    parallel_each(inputs.zip(out.chunks_mut(length)), |((a, b), out)| {
        weighted_here(set, a, b, weight, out);
    })
}

compiled_for_each_set! {
    fn squares_here(a: &[f32], b: &[f32], out: &mut [f32]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let r = a - b;
            *out = r * r;
        }
    }
}

compiled_for_each_set! {
    fn weighted_here(a: &[f32], b: &[f32], weight: f32, out: &mut [f32]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let r = a - b;
            *out = r * weight;
        }
    }
}
