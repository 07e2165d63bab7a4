//! `csrc/controls.cpp` as safe Rust: what libtorch can do and `tch` does not reach.
//!
//! Every C function returns 0, or 1 with a message left in `torchlean_last_error`.

use std::ops::Range;

use crate::error::{Error, Result};

#[cfg(feature = "libtorch")]
mod ffi {
    use std::ffi::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub fn torchlean_last_error() -> *const c_char;
        pub fn torchlean_cuda_device_count(out: *mut i64) -> c_int;
        pub fn torchlean_deterministic(out: *mut i32) -> c_int;
        pub fn torchlean_set_deterministic(on: i32) -> c_int;
        pub fn torchlean_parallel_for(
            begin: i64,
            end: i64,
            grain: i64,
            body: extern "C" fn(context: *mut c_void, begin: i64, end: i64),
            context: *mut c_void,
        ) -> c_int;
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

/// Runs `body` on pieces of `0..n` on libtorch's threads; a panic in it goes on in the caller.
#[cfg(feature = "libtorch")]
pub(crate) fn parallel_for(
    n: usize,
    grain: usize,
    body: &(dyn Fn(Range<usize>) + Sync),
) -> Result<()> {
    use std::any::Any;
    use std::ffi::c_void;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::{Mutex, PoisonError};

    struct Context<'a> {
        body: &'a (dyn Fn(Range<usize>) + Sync),
        panic: Mutex<Option<Box<dyn Any + Send>>>,
    }

    extern "C" fn piece(context: *mut c_void, begin: i64, end: i64) {
        // SAFETY: `context` is the `Context` below, which outlives the loop and is `Sync`.
        let context = unsafe { &*context.cast::<Context<'_>>() };
        let run = AssertUnwindSafe(|| (context.body)(begin as usize..end as usize));
        if let Err(payload) = catch_unwind(run) {
            let mut panic = context.panic.lock().unwrap_or_else(PoisonError::into_inner);
            *panic = Some(payload);
        }
    }

    let context = Context {
        body,
        panic: Mutex::new(None),
    };
    let pointer = (&raw const context).cast_mut().cast();
    // SAFETY: `piece` does not unwind and takes what `pointer` points to; the call returns when every piece has run.
    let status = unsafe { ffi::torchlean_parallel_for(0, n as i64, grain as i64, piece, pointer) };
    let panic = context.panic.into_inner();
    if let Some(payload) = panic.unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(payload);
    }
    check("parallel_for", status)
}

/// Not linked: there is one thread, so this is not reached.
#[cfg(not(feature = "libtorch"))]
pub(crate) fn parallel_for(
    n: usize,
    _grain: usize,
    body: &(dyn Fn(Range<usize>) + Sync),
) -> Result<()> {
    body(0..n);
    Ok(())
}
