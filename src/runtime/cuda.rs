//! The CUDA devices: which there are, which one is used, and waiting for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::device::{DeviceKind, device_kind, require_cuda, visible_cuda_devices};
use crate::aten::Device;
use crate::error::{Error, Result};
use crate::sys;

/// What is known of a CUDA device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaDevice {
    /// The driver's name of it.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Streaming multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of memory in all.
    pub memory: u64,
}

/// The identity of a visible CUDA device by its index; asking makes no context on it.
///
/// # Errors
/// [`Error::NotLinked`]; [`Error::InvalidArgument`] for an index that no visible device has.
pub fn cuda_device(index: usize) -> Result<CudaDevice> {
    check_index("cuda_device", index)?;
    let identity = sys::cuda_identity(index)?;
    let name = identity
        .name
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default();
    Ok(CudaDevice {
        name: String::from_utf8_lossy(name).into_owned(),
        capability: (identity.capability[0], identity.capability[1]),
        multiprocessors: identity.multiprocessors,
        memory: identity.memory,
    })
}

fn check_index(op: &'static str, index: usize) -> Result<()> {
    let visible = visible_cuda_devices()?;
    if index < visible {
        return Ok(());
    }
    let expected = format!("an index below {visible}, the number of visible CUDA devices");
    Err(Error::InvalidArgument {
        op,
        expected,
        found: index.to_string(),
    })
}

/// The index that buffers will be made on.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);
/// The one that they are made on, from the first buffer on.
static FIXED: OnceLock<usize> = OnceLock::new();

/// Chooses among several visible CUDA devices, before the first buffer is made; returns the index chosen before (0
/// at the start).
///
/// # Errors
/// [`Error::CudaRequired`] on the host; [`Error::InvalidArgument`] for an index that no visible device has, or once
/// a buffer has been made; as [`device_kind`].
pub fn set_device(index: usize) -> Result<usize> {
    require_cuda("set_device")?;
    check_index("set_device", index)?;
    if let Some(fixed) = FIXED.get() {
        let expected = "a call before the first buffer".to_owned();
        let found = format!("buffers on device {fixed}");
        return Err(Error::InvalidArgument {
            op: "set_device",
            expected,
            found,
        });
    }
    Ok(CHOSEN.swap(index, Relaxed))
}

/// The index of the CUDA device in use, or `None` on the host.
pub(super) fn cuda_index() -> Result<Option<usize>> {
    match device_kind()? {
        DeviceKind::Host => Ok(None),
        DeviceKind::Cuda => Ok(Some(*FIXED.get().unwrap_or(&CHOSEN.load(Relaxed)))),
    }
}

/// Waits until the device has done all work given to it; on the host it returns at once.
///
/// # Errors
/// As [`device_kind`]; an error of earlier work on the device that shows now.
pub fn synchronize() -> Result<()> {
    cuda_index()?.map_or(Ok(()), sys::cuda_synchronize)
}

/// The selected device as libtorch names it; from the first call on it is fixed.
pub(crate) fn device() -> Result<Device> {
    Ok(match device_kind()? {
        DeviceKind::Host => Device::Cpu,
        DeviceKind::Cuda => Device::Cuda(*FIXED.get_or_init(|| CHOSEN.load(Relaxed))),
    })
}
