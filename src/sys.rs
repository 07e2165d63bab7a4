//! `csrc/controls.cpp` as safe Rust: what libtorch can do and `tch` does not reach.
//!
//! Every C function returns 0, or 1 with a message left in `torchlean_last_error`.

use crate::error::{Error, Result};

#[cfg(feature = "libtorch")]
mod ffi {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        pub fn torchlean_last_error() -> *const c_char;
        pub fn torchlean_cuda_device_count(out: *mut i64) -> c_int;
        pub fn torchlean_deterministic(out: *mut i32) -> c_int;
        pub fn torchlean_set_deterministic(on: i32) -> c_int;
    }
}

#[cfg(feature = "libtorch")]
fn check(call: &'static str, status: std::ffi::c_int) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the function returns a NUL-terminated string of this thread that lives until its next failing call.
    let text = unsafe { std::ffi::CStr::from_ptr(ffi::torchlean_last_error()) };
    Err(Error::from_libtorch(call, &text.to_string_lossy()))
}

/// Declares one getter or setter twice: over the C function, and answering `NotLinked`.
macro_rules! controls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty $body:block)*) => {$(
        $(#[$doc])*
        #[cfg(feature = "libtorch")]
        pub(crate) fn $name($($arg: $ty),*) -> Result<$out> $body

        $(#[$doc])*
        #[cfg(not(feature = "libtorch"))]
        pub(crate) fn $name($(_: $ty),*) -> Result<$out> {
            Err(Error::NotLinked)
        }
    )*};
}

controls! {
    /// How many CUDA devices are visible; zero without a driver and with an SDK that has no CUDA.
    fn cuda_device_count() -> usize {
        let mut count = 0;
        // SAFETY: `count` is a valid place for the result.
        check("device_count", unsafe { ffi::torchlean_cuda_device_count(&mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Whether libtorch's deterministic algorithms are on.
    fn deterministic() -> bool {
        let mut on = 0;
        // SAFETY: `on` is a valid place for the result.
        check("deterministic", unsafe { ffi::torchlean_deterministic(&mut on) })?;
        Ok(on != 0)
    }

    /// Switches libtorch's deterministic algorithms.
    fn set_deterministic(on: bool) -> () {
        // SAFETY: takes a plain integer.
        check("set_deterministic", unsafe { ffi::torchlean_set_deterministic(i32::from(on)) })
    }
}
