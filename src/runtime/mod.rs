//! What runs where: the choice of a device, and the process-wide switches.

mod determinism;
mod device;
mod memory;
pub(crate) mod parallel;
mod path;

pub use determinism::{DeterminismGuard, deterministic, deterministic_scope, set_deterministic};
pub use device::{
    DEVICE_VARIABLE, DeviceKind, Refusal, RuntimeStatus, device_kind, require_cuda,
    require_cuda_device, require_native_runtime, runtime_status, select, visible_cuda_devices,
};
pub use memory::{Payload, payload};
pub use path::{Path, instruction_set, path, with_instruction_set, with_path};

pub(crate) use device::{device, on_host};
pub(crate) use memory::Counted;
