//! The fused kernels on slices, without libtorch and without a device.

pub use crate::simd::InstructionSet;
