//! Inputs on which some library once went wrong, each with the right value; issues are numbered as in its tracker.

mod lookups;
mod ours;
mod places;
mod refusals;

#[path = "../common/mod.rs"]
mod common;

use torchlean::Buffer;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

fn buffer(values: &[f32]) -> Buffer {
    Buffer::from_slice(values, &[values.len()]).unwrap()
}

/// A row as it stands, and repeated to 40 elements, where vector bodies run.
fn lengths(x: &[f32]) -> [Vec<f32>; 2] {
    [x.to_vec(), x.iter().copied().cycle().take(40).collect()]
}
