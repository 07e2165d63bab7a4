//! Tabulated functions at many coordinates: clamp-addressed linear interpolation over libtorch, held to the bits of an
//! executable float32 reference, with gradients for the table and for the coordinates.
//!
//! ```
//! use torchlean::{Buffer, Grid, Tape, spec};
//!
//! # if torchlean::device_kind().is_ok() {
//! // Degrees at 0, 1, 2, 3 and 4 volts, asked at four voltages.
//! let volts = Grid::new(0.0, 1.0, 5)?;
//! let (curve, at) = ([0.0, 24.0, 50.0, 78.0, 108.0], volts.coords(&[0.5, 2.25, 3.0, 9.0]));
//!
//! let tape = Tape::new();
//! let table = tape.leaf(Buffer::from_slice(&curve, &[5])?)?;
//! let coords = tape.leaf(Buffer::from_slice(&at, &[4])?)?;
//! let degrees = tape.table_lookup(table, coords)?;
//! assert_eq!(tape.value(degrees)?.to_vec()?, [12.0, 57.0, 78.0, 108.0]);
//! assert_eq!(tape.value(degrees)?.to_vec()?, spec::table_lookup(&curve, &at)?);
//!
//! let gradients = tape.backward(degrees, Some(&Buffer::full(&[4], 1.0)?))?;
//! assert_eq!(gradients.get(coords)?.unwrap().to_vec()?, [24.0, 28.0, 30.0, 0.0]);
//! # }
//! # Ok::<(), torchlean::Error>(())
//! ```
//!
//! The lookups are [`Buffer::table_lookup`] and [`Buffer::layered_table_lookup`]; [`ops::OPS`] lists every operation.
//!
//! # The house
//!
//! A module uses those below it and nothing above, with two exceptions: an [`Error`] carries the
//! [`Refusal`](runtime::Refusal) of `runtime`, and [`runtime::report`] tries to make a [`Buffer`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`spec`] | what every operation means, on slices and in integer arithmetic: the reference bodies of `ops`, gathered under one name |
//! | [`host`] | the fused kernels on slices, gathered likewise; they need no libtorch |
//! | `grid` | [`Grid`]: physical values to grid coordinates, in float64 |
//! | [`ops`] | the operations, one family per file: `arithmetic`, `ordering`, `reduce`, `index`, `lookup`; the list of them |
//! | `tape` | [`Tape`], [`Var`], [`Gradients`]; [`Op`], the door for operations of your own, and [`check_vjp`] for their tests. Knows no operation |
//! | `buffer` | [`Buffer`]: shaped, immutable float32 on the selected device; the ways from and to `tch` |
//! | [`runtime`] | which device, chosen once per process; which form of an operation runs; determinism and float32 policy; memory; a report of it all, which `torchlean-doctor` prints |
//! | `aten` | the one list of ATen calls in use, and its twin for a build without libtorch |
//! | `sys` | `csrc/controls.cpp` as safe Rust: what libtorch can do and `tch` does not reach |
//! | `simd` | one body compiled for several instruction sets, of which one is chosen at run time |
//! | `binary32` | float32 by integer arithmetic ([`spec::Binary32`]), for the reference bodies |
//! | `error` | [`Error`], the one error type |
//!
//! # The rules
//!
//! 1. **One family, one place.** Contract, every form, VJP, tape method and reference of an operation stand in one file, or
//!    in one folder where they outgrow it.
//! 2. **Meaning, then speed.** An operation has a `reference` form, which is what it means, and a composed form made of ATen
//!    calls, which runs on every device. Lookups, `gather_at`, `scatter_add_at`, `sqrt`, `mse` and `axpy` have a fused form
//!    for the host too. The steps are numbered alike in all of them, each rounds once, and the same tests hold all to the same bits (or to NaN).
//!    [`runtime::with_path`] chooses; the fused form is the default.
//! 3. **One door to libtorch.** Its tensors are computed on in `aten` alone and its C++ is called in `sys` alone. Without the
//!    feature `libtorch` the same macro makes a twin of each that cannot be reached or answers [`Error::NotLinked`].
//! 4. **Checked once, at the public function.** What lies behind it receives valid shapes. No argument may make a
//!    call panic, read outside a table, or compute on another device than the selected one.
//! 5. **One spelling, and it is fallible.** Whatever can fail returns [`Result`]; there are no panicking twins and no
//!    operators on buffers. Nothing is broadcast: shapes agree or are an [`Error::Shape`].
//!
//! # The device
//!
//! `TORCHLEAN_LIBTORCH_DEVICE` (`cpu` or `cuda`; unset: CUDA where the SDK has it, else the host) is read once per
//! process; every buffer is born on the device that [`runtime::select`] makes of it. A CUDA SDK without a visible device is
//! an error, never silently the host. [`device_kind`] has the answer or the reason.
//!
//! # Features
//!
//! | feature | what it does |
//! |---|---|
//! | `libtorch` (default) | links libtorch 2.11.0 through `tch` 0.24, which is re-exported |
//! | `cuda` | makes the test suite fail where the selected device is not CUDA; it changes nothing in the library |
//! | `download-libtorch` | lets torch-sys download an SDK at build time |
//!
//! Without `libtorch` the crate needs no SDK and no C++ compiler: [`spec`], [`host`] and [`Grid`] work, the rest
//! type-checks and answers [`Error::NotLinked`], and only the conversions to and from `tch` are missing.
//!
//! # Starting a program by hand
//!
//! `cargo run` and `cargo test` find the libraries by themselves, in dependent crates too. A program that is started
//! otherwise needs their folder in its rpath. The crate of the program asks for that in its `build.rs`, whose `main` is:
//!
//! ```no_run
//! println!("cargo::rustc-link-arg=-Wl,-rpath,{}", std::env::var("DEP_TORCHLEAN_LIBTORCH_LIB").unwrap());
//! ```

// Nothing that a user can do panics, and no size overflows. What the second lint exempts says why.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod aten;
#[allow(clippy::arithmetic_side_effects)] // of floats in integers, whose ranges the format sets
mod binary32;
mod buffer;
mod error;
mod grid;
pub mod host;
pub mod ops;
pub mod runtime;
mod simd;
pub mod spec;
mod sys;
mod tape;

pub use buffer::Buffer;
pub use error::{CppTrace, Error, Result};
pub use grid::Grid;
pub use runtime::{
    DeviceKind, RuntimeStatus, device_kind, require_cuda, require_cuda_device,
    require_native_runtime, runtime_status,
};
pub use tape::{Gradients, Op, Tape, Var, VjpArgs, check_vjp};
#[cfg(feature = "libtorch")]
pub use tch;

/// The examples of the README are tests.
#[cfg(all(doctest, feature = "libtorch"))]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
