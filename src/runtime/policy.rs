//! What libtorch may do to float32 for speed. At the start: nothing.

use super::device::device_kind;
use crate::error::Result;
use crate::sys;

/// Where libtorch may compute float32, or sum half-width floats, at less than full width.
///
/// Set to all false at the first use of the runtime, whatever the process had set before: no TF32, no
/// reduced-precision sums, no choice of algorithms by timing. None of it touches this crate's own operations, whose
/// bits are fixed; it is for what else a program computes with `tch` on the same device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Float32Policy {
    /// TF32 in matrix products.
    pub tf32_matmul: bool,
    /// TF32 in cuDNN's convolutions.
    pub tf32_cudnn: bool,
    /// Reduced-precision sums in products of float16.
    pub reduced_fp16_sums: bool,
    /// Reduced-precision sums in products of bfloat16.
    pub reduced_bf16_sums: bool,
    /// cuDNN times its algorithms and takes the fastest: bits may change from run to run.
    pub cudnn_benchmark: bool,
}

impl Float32Policy {
    /// As csrc/controls.cpp numbers them.
    fn bits(self) -> u32 {
        u32::from(self.tf32_matmul)
            | u32::from(self.tf32_cudnn) << 1
            | u32::from(self.reduced_fp16_sums) << 2
            | u32::from(self.reduced_bf16_sums) << 3
            | u32::from(self.cudnn_benchmark) << 4
    }

    fn from_bits(bits: u32) -> Float32Policy {
        let on = |bit: u32| bits >> bit & 1 == 1;
        Float32Policy {
            tf32_matmul: on(0),
            tf32_cudnn: on(1),
            reduced_fp16_sums: on(2),
            reduced_bf16_sums: on(3),
            cudnn_benchmark: on(4),
        }
    }
}

/// Sets the policy of the start.
pub(super) fn start() -> Result<()> {
    sys::set_float32_policy(Float32Policy::default().bits())
}

/// The policy in force, asked of libtorch itself.
///
/// # Errors
/// As [`device_kind`](crate::device_kind).
pub fn float32_policy() -> Result<Float32Policy> {
    device_kind()?;
    sys::float32_policy().map(Float32Policy::from_bits)
}

/// Changes the policy for the whole process; returns the one before.
///
/// # Errors
/// As [`device_kind`](crate::device_kind).
///
/// ```
/// # use torchlean::runtime;
/// # if torchlean::device_kind().is_ok() {
/// let mut policy = runtime::float32_policy()?;
/// assert_eq!(policy, runtime::Float32Policy::default());
/// policy.tf32_matmul = true;
/// let before = runtime::set_float32_policy(policy)?;
/// assert_eq!(runtime::set_float32_policy(before)?, policy);
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn set_float32_policy(policy: Float32Policy) -> Result<Float32Policy> {
    let prior = float32_policy()?;
    sys::set_float32_policy(policy.bits())?;
    Ok(prior)
}
