//! How many bytes the buffers of the process hold, and what the allocator and the driver hold for them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::cuda::cuda_index;
use super::device::require_cuda;
use crate::error::{Error, Result};
use crate::{aten, sys};

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
static CREATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// The payload of all [`Buffer`](crate::Buffer)s: 4 bytes per element, each storage counted once however many buffers
/// share it. Counted on every device; what allocators keep beside it is not in here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Payload {
    /// Bytes held now.
    pub live: u64,
    /// The most bytes held at a time, since the start or [`reset_peak`].
    pub peak: u64,
    /// Storages made so far.
    pub created: u64,
    /// Storages freed so far.
    pub freed: u64,
}

/// The counters at this moment; under concurrent use each is exact and the four are read one after the other.
///
/// ```
/// # use torchlean::{Buffer, runtime};
/// # if torchlean::device_kind().is_ok() {
/// let buffer = Buffer::zeros(&[250])?;
/// assert!(runtime::payload().live >= 1000);
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn payload() -> Payload {
    Payload {
        live: LIVE.load(Relaxed),
        peak: PEAK.load(Relaxed),
        created: CREATED.load(Relaxed),
        freed: FREED.load(Relaxed),
    }
}

/// The memory of the CUDA device in use, in bytes; all zero on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// Held by tensors, libtorch's allocator says.
    pub allocated: u64,
    /// The most at a time, since the start or [`reset_peak`].
    pub allocated_peak: u64,
    /// Taken from the driver by the allocator, in use or kept for later.
    pub reserved: u64,
    /// The most at a time, since the start or [`reset_peak`].
    pub reserved_peak: u64,
    /// Free on the device, the driver says; other processes count.
    pub driver_free: u64,
    /// The device's memory in all.
    pub driver_total: u64,
}

/// The memory of the CUDA device in use; all zero on the host.
///
/// # Errors
/// As [`device_kind`](crate::device_kind).
pub fn device_memory() -> Result<DeviceMemory> {
    let Some(index) = cuda_index()? else {
        return Ok(DeviceMemory::default());
    };
    let memory = sys::cuda_memory(index)?;
    let bytes = |n: i64| u64::try_from(n).unwrap_or(0);
    Ok(DeviceMemory {
        allocated: bytes(memory.allocated),
        allocated_peak: bytes(memory.allocated_peak),
        reserved: bytes(memory.reserved),
        reserved_peak: bytes(memory.reserved_peak),
        driver_free: memory.driver_free,
        driver_total: memory.driver_total,
    })
}

/// Starts the peaks anew, of the payload and of the device, from what is held now.
///
/// # Errors
/// As [`device_kind`](crate::device_kind).
pub fn reset_peak() -> Result<()> {
    if let Some(index) = cuda_index()? {
        sys::cuda_reset_peak(index)?;
    }
    PEAK.store(LIVE.load(Relaxed), Relaxed);
    Ok(())
}

/// Gives back memory that is kept for later: by libtorch's allocator, to the driver of a CUDA device; on the host that
/// of results that were dropped, at most 256 MiB in blocks from 32 MiB up, and 1 MiB of this thread's small ones.
///
/// # Errors
/// As [`device_kind`](crate::device_kind).
pub fn empty_cache() -> Result<()> {
    aten::free_spare_results();
    cuda_index()?.map_or(Ok(()), |_| sys::cuda_empty_cache())
}

/// Limits the part of the device's memory that libtorch may take, from above 0 to 1; returns the part before.
///
/// # Errors
/// [`Error::CudaRequired`] on the host; [`Error::InvalidArgument`] outside that range; as
/// [`device_kind`](crate::device_kind).
pub fn set_memory_fraction(fraction: f64) -> Result<f64> {
    let op = "set_memory_fraction";
    require_cuda(op)?;
    if !(fraction > 0.0 && fraction <= 1.0) {
        let expected = "a fraction above 0 and at most 1".to_owned();
        return Err(Error::InvalidArgument {
            op,
            expected,
            found: fraction.to_string(),
        });
    }
    let index = cuda_index()?.unwrap_or(0);
    let prior = sys::cuda_memory_fraction(index)?;
    sys::set_cuda_memory_fraction(index, fraction)?;
    Ok(prior)
}

/// One line for a person: what buffers hold, and on CUDA what the allocator and the driver hold.
///
/// # Errors
/// As [`device_kind`](crate::device_kind).
///
/// ```
/// # use torchlean::{Buffer, runtime};
/// # if torchlean::device_kind().is_ok() {
/// let _table = Buffer::zeros(&[1 << 20])?;
/// assert!(runtime::memory_report()?.starts_with("buffers: "));
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn memory_report() -> Result<String> {
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let Payload {
        live,
        peak,
        created,
        freed,
    } = payload();
    let mut line = format!(
        "buffers: {} held (peak {}), {created} made, {freed} freed",
        mib(live),
        mib(peak)
    );
    let device = device_memory()?;
    if device.driver_total > 0 {
        line += &format!(
            "; CUDA: {} allocated (peak {}), {} reserved, {} of {} free",
            mib(device.allocated),
            mib(device.allocated_peak),
            mib(device.reserved),
            mib(device.driver_free),
            mib(device.driver_total)
        );
    }
    Ok(line)
}

/// A storage's entry in the counters, from its making to its drop.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: u64,
}

impl Counted {
    pub(crate) fn new(elements: usize) -> Counted {
        let bytes = (elements as u64).saturating_mul(size_of::<f32>() as u64);
        let live = LIVE.fetch_add(bytes, Relaxed).saturating_add(bytes);
        PEAK.fetch_max(live, Relaxed);
        CREATED.fetch_add(1, Relaxed);
        Counted { bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(self.bytes, Relaxed);
        FREED.fetch_add(1, Relaxed);
    }
}
