//! `csrc/controls.cpp` as safe Rust: what libtorch can do and `tch` does not reach.
//!
//! Every C function returns 0, or 1 with a message left in `torchlean_last_error`.

use std::ops::Range;

use crate::error::{Error, Result};

#[cfg(feature = "libtorch")]
mod ffi {
    use std::ffi::{c_char, c_int, c_void};

    use super::{CudaIdentity, CudaMemory};

    unsafe extern "C" {
        pub fn torchlean_last_error() -> *const c_char;
        pub fn torchlean_set_deterministic(on: i32) -> c_int;
        pub fn torchlean_float32_policy(out: *mut u32) -> c_int;
        pub fn torchlean_set_float32_policy(bits: u32) -> c_int;
        pub fn torchlean_cuda_device_count(out: *mut i64) -> c_int;
        pub fn torchlean_cuda_device_identity(device: i64, out: *mut CudaIdentity) -> c_int;
        pub fn torchlean_cuda_synchronize(device: i64) -> c_int;
        pub fn torchlean_cuda_memory_stats(device: i64, out: *mut CudaMemory) -> c_int;
        pub fn torchlean_cuda_reset_peak(device: i64) -> c_int;
        pub fn torchlean_cuda_empty_cache() -> c_int;
        pub fn torchlean_cuda_memory_fraction(device: i64, out: *mut f64) -> c_int;
        pub fn torchlean_cuda_set_memory_fraction(device: i64, fraction: f64) -> c_int;
        pub fn torchlean_parallel_for(
            begin: i64,
            end: i64,
            grain: i64,
            body: extern "C" fn(context: *mut c_void, begin: i64, end: i64),
            context: *mut c_void,
        ) -> c_int;
    }
}

/// What the driver says of a device, as C lays it out.
#[repr(C)]
pub(crate) struct CudaIdentity {
    /// NUL-terminated.
    pub(crate) name: [u8; 256],
    pub(crate) memory: u64,
    pub(crate) capability: [i32; 2],
    pub(crate) multiprocessors: i32,
}

/// The allocator's and the driver's bytes on a device, as C lays them out.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CudaMemory {
    pub(crate) allocated: i64,
    pub(crate) allocated_peak: i64,
    pub(crate) reserved: i64,
    pub(crate) reserved_peak: i64,
    pub(crate) driver_free: u64,
    pub(crate) driver_total: u64,
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

    /// Switches libtorch's deterministic algorithms.
    fn set_deterministic(on: bool) -> () {
        // SAFETY: takes a plain integer.
        check("set_deterministic", unsafe { ffi::torchlean_set_deterministic(i32::from(on)) })
    }

    /// What libtorch may do to float32 for speed, one bit each (see csrc/controls.cpp).
    fn float32_policy() -> u32 {
        let mut bits = 0;
        // SAFETY: `bits` is a valid place for the result.
        check("float32_policy", unsafe { ffi::torchlean_float32_policy(&mut bits) })?;
        Ok(bits)
    }

    /// Sets all of them.
    fn set_float32_policy(bits: u32) -> () {
        // SAFETY: takes a plain integer.
        check("set_float32_policy", unsafe { ffi::torchlean_set_float32_policy(bits) })
    }

    /// Name, memory, capability and multiprocessors of a visible device.
    fn cuda_identity(device: usize) -> CudaIdentity {
        let mut identity =
            CudaIdentity { name: [0; 256], memory: 0, capability: [0; 2], multiprocessors: 0 };
        // SAFETY: `identity` is a valid place for the result, laid out as C's.
        check("device_identity", unsafe {
            ffi::torchlean_cuda_device_identity(device as i64, &mut identity)
        })?;
        Ok(identity)
    }

    /// Waits for all work on a device.
    fn cuda_synchronize(device: usize) -> () {
        // SAFETY: takes a plain integer.
        check("synchronize", unsafe { ffi::torchlean_cuda_synchronize(device as i64) })
    }

    /// The allocator's and the driver's bytes.
    fn cuda_memory(device: usize) -> CudaMemory {
        let mut memory = CudaMemory::default();
        // SAFETY: `memory` is a valid place for the result, laid out as C's.
        check("memory_stats", unsafe {
            ffi::torchlean_cuda_memory_stats(device as i64, &mut memory)
        })?;
        Ok(memory)
    }

    /// Starts the allocator's peaks anew from what is held.
    fn cuda_reset_peak(device: usize) -> () {
        // SAFETY: takes a plain integer.
        check("reset_peak", unsafe { ffi::torchlean_cuda_reset_peak(device as i64) })
    }

    /// Gives the allocator's unused memory back to the driver.
    fn cuda_empty_cache() -> () {
        // SAFETY: takes nothing.
        check("empty_cache", unsafe { ffi::torchlean_cuda_empty_cache() })
    }

    /// The part of a device's memory that the allocator may take.
    fn cuda_memory_fraction(device: usize) -> f64 {
        let mut fraction = 0.0;
        // SAFETY: `fraction` is a valid place for the result.
        check("memory_fraction", unsafe {
            ffi::torchlean_cuda_memory_fraction(device as i64, &mut fraction)
        })?;
        Ok(fraction)
    }

    /// Sets it.
    fn set_cuda_memory_fraction(device: usize, fraction: f64) -> () {
        // SAFETY: takes plain numbers.
        check("set_memory_fraction", unsafe {
            ffi::torchlean_cuda_set_memory_fraction(device as i64, fraction)
        })
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
