//! How many bytes the buffers of the process hold.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    /// The most bytes held at a time since the start.
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

/// A storage's entry in the counters, from its making to its drop.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: u64,
}

impl Counted {
    pub(crate) fn new(elements: usize) -> Counted {
        let bytes = elements as u64 * 4;
        let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
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
