//! torchlean (crate docs to be written)

mod aten;
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
