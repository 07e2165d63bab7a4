//! What runs where: the choice of a device, and the process-wide switches.

mod determinism;
mod device;
mod memory;

pub use determinism::{DeterminismGuard, deterministic, deterministic_scope, set_deterministic};
pub use device::{
    DEVICE_VARIABLE, DeviceKind, Refusal, RuntimeStatus, device_kind, require_cuda,
    require_cuda_device, require_native_runtime, runtime_status, select, visible_cuda_devices,
};
pub use memory::{Payload, payload};

pub(crate) use device::device;
pub(crate) use memory::Counted;
