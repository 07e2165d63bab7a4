//! What runs where: the choice of a device, the process-wide switches, and what the process holds.
//!
//! On the host the controls of a CUDA device have a defined conduct: counters of its memory read zero, `synchronize`
//! and `empty_cache` return at once, and what has no meaning there ([`set_memory_fraction`], [`set_device`]) refuses
//! with an [`Error::CudaRequired`](crate::Error::CudaRequired). Setters return the prior value.

mod cuda;
mod determinism;
mod device;
mod memory;
pub(crate) mod parallel;
mod path;
mod policy;
mod report;

pub use cuda::{CudaDevice, cuda_device, set_device, synchronize};
pub use determinism::{DeterminismGuard, deterministic, deterministic_scope, set_deterministic};
pub use device::{
    DEVICE_VARIABLE, DeviceKind, Refusal, RuntimeStatus, device_kind, require_cuda,
    require_cuda_device, require_native_runtime, runtime_status, select, visible_cuda_devices,
};
pub use memory::{
    DeviceMemory, Payload, device_memory, empty_cache, memory_report, payload, reset_peak,
    set_memory_fraction,
};
pub use path::{Path, instruction_set, path, with_instruction_set, with_path};
pub use policy::{Float32Policy, float32_policy, set_float32_policy};
pub use report::{Report, report};

pub(crate) use cuda::device;
pub(crate) use device::on_host;
pub(crate) use memory::Counted;
