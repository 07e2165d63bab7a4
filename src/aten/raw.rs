//! Calls that take scalars, by torch-sys: in `tch` a scalar's drop comes before the look at the error, takes it for its
//! own, and panics.

use std::ffi::CStr;
use std::ptr;

use torch_sys::{C_scalar, C_tensor};

use super::Tensor;

pub(super) struct Scalar(*mut C_scalar);

impl Scalar {
    pub(super) fn pointer(&self) -> *mut C_scalar {
        self.0
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Scalar {
        // SAFETY: takes a plain number and returns a scalar that this struct owns.
        Scalar(unsafe { torch_sys::ats_float(value.into()) })
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Scalar {
        // SAFETY: as above.
        Scalar(unsafe { torch_sys::ats_int(value) })
    }
}

impl Drop for Scalar {
    fn drop(&mut self) {
        // SAFETY: made by ats_float or ats_int, and freed once.
        unsafe { torch_sys::ats_free(self.0) }
    }
}

pub(super) fn pointer(tensor: &Tensor) -> *mut C_tensor {
    tensor.0.as_ptr().cast_mut()
}

/// Runs a call that leaves one tensor in `out`, or a message.
pub(super) fn call(f: impl FnOnce(*mut *mut C_tensor)) -> Result<tch::Tensor, tch::TchError> {
    let mut out = ptr::null_mut();
    f(&mut out);
    // SAFETY: gives this thread's message, or null; it is freed once, below.
    let message = unsafe { torch_sys::get_and_reset_last_err() };
    if message.is_null() {
        // SAFETY: without a message `out` is a new tensor that nothing else owns.
        return Ok(unsafe { tch::Tensor::from_ptr(out) });
    }
    // SAFETY: a NUL-terminated string of C's allocator, owned by this function.
    let text = unsafe { CStr::from_ptr(message) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: as above, and not read any more.
    unsafe { libc::free(message.cast()) };
    Err(tch::TchError::Torch(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    /// In `tch` such a call panics. The input is one element under a huge shape, which no result can have.
    #[test]
    fn a_call_with_scalars_that_libtorch_refuses_is_an_error() -> Result<(), Error> {
        let one = tch::Tensor::ones([1], (tch::Kind::Float, tch::Device::Cpu));
        let huge = Tensor::from(one.expand([1 << 50], false));
        for refused in [huge.mul_scalar(2.0), huge.clamp(0.0, 1.0)] {
            assert!(
                matches!(refused, Err(Error::OutOfMemory { bytes, .. }) if bytes == 1 << 52),
                "{refused:?}"
            );
        }
        assert_eq!(Tensor::from(one).mul_scalar(2.0)?.host_slice(1), [2.0]);
        Ok(())
    }
}
