//! The handle to a libtorch tensor.

pub(crate) use tch::Device;

use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;

use super::{failure, spare, wrap};
use crate::error::Result;

/// An owned handle to a libtorch tensor.
#[derive(Debug)]
pub(crate) struct Tensor(pub(super) ManuallyDrop<tch::Tensor>, pub(super) Memory);

/// What is known about a tensor's memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// Where it is, once asked: libtorch takes longer to say so than a short kernel to run.
    pub(super) data: AtomicPtr<f32>,
    /// How many floats it has, where it goes to the spare ones; else 0.
    pub(super) spare: usize,
}

impl From<tch::Tensor> for Tensor {
    fn from(tensor: tch::Tensor) -> Tensor {
        let data = AtomicPtr::new(null_mut());
        Tensor(ManuallyDrop::new(tensor), Memory { data, spare: 0 })
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the handle is taken once, here.
        let tensor = unsafe { ManuallyDrop::take(&mut self.0) };
        if self.1.spare > 0 {
            spare::keep(self.1.spare, tensor);
        }
    }
}

/// A new tensor of any bits on the host; where memory has no room, after the spare ones are freed.
fn new_for_result(n: usize) -> Result<Tensor> {
    let options = (tch::Kind::Float, Device::Cpu);
    let new = || wrap("empty", tch::Tensor::f_empty([n as i64], options));
    let tensor = new().or_else(|_| {
        spare::free();
        new()
    })?;
    if n >= spare::LARGE {
        tensor.ask_for_huge_pages(n);
    }
    Ok(tensor)
}

// SAFETY: a handle may move between threads (`tch::Tensor` is `Send`). Shared references reach nothing but ATen
// functions that take their operands const, and reads of the memory; writes need `&mut Tensor`, which `Buffer`
// hands out only to the sole owner. ATen's reference counts are atomic.
unsafe impl Sync for Tensor {}

impl Tensor {
    /// Adds in place.
    pub(crate) fn add_in_place(&mut self, other: &Tensor) -> Result<()> {
        self.0
            .f_add_(&other.0)
            .map(drop)
            .map_err(|error| failure("add_", error))
    }

    /// Takes the values of a tensor of the same shape.
    pub(crate) fn copy_in_place(&mut self, other: &Tensor) -> Result<()> {
        self.0
            .f_copy_(&other.0)
            .map_err(|error| failure("copy_", error))
    }

    /// A flat tensor on the host for a result, of any bits. Nothing but the tensor itself may ever share its memory,
    /// which may come from an earlier result.
    pub(crate) fn for_result(n: usize) -> Result<Tensor> {
        let mut tensor = match spare::take(n) {
            Some(tensor) => Tensor::from(tensor),
            None => new_for_result(n)?,
        };
        if spare::is_kept(n) {
            tensor.1.spare = n;
        }
        Ok(tensor)
    }

    /// Fewer page faults at the first touch of a large block; a small one only gets slower.
    fn ask_for_huge_pages(&self, n: usize) {
        const PAGE: usize = 4096;
        #[cfg(target_os = "linux")]
        {
            let start = self.data().cast::<u8>();
            let head = start.align_offset(PAGE);
            let bytes = n.saturating_mul(size_of::<f32>()).saturating_sub(head);
            let length = bytes.saturating_sub(bytes % PAGE);
            // SAFETY: whole pages inside the tensor's memory; the advice changes no content, and may be refused.
            unsafe {
                libc::madvise(start.add(head).cast(), length, libc::MADV_HUGEPAGE);
            }
        }
    }

    /// Where the floats are; the memory of a tensor never moves.
    fn data(&self) -> *mut f32 {
        use std::sync::atomic::Ordering::Relaxed;
        let known = self.1.data.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        let data = self.0.data_ptr().cast::<f32>();
        self.1.data.store(data, Relaxed);
        data
    }

    /// The `n` floats of a flat, contiguous tensor on the host.
    pub(crate) fn host_slice(&self, n: usize) -> &[f32] {
        debug_assert!(self.0.device() == Device::Cpu && self.0.is_contiguous());
        debug_assert_eq!(self.0.numel(), n);
        if n == 0 {
            return &[]; // its data pointer is null
        }
        // SAFETY: a contiguous float32 tensor on the host holds `n` floats at its data pointer, and nothing writes
        // them while a shared reference to the only owner of the memory lives.
        unsafe { std::slice::from_raw_parts(self.data(), n) }
    }

    /// The `n` floats of such a tensor, for its only owner; those of a new one have any bits.
    pub(crate) fn host_slice_mut(&mut self, n: usize) -> &mut [f32] {
        debug_assert!(self.0.device() == Device::Cpu && self.0.is_contiguous());
        debug_assert_eq!(self.0.numel(), n);
        if n == 0 {
            return &mut [];
        }
        // SAFETY: as above, and `&mut self` is the only way to the memory. It comes from a foreign allocator, so
        // what was not written yet is some float.
        unsafe { std::slice::from_raw_parts_mut(self.data(), n) }
    }

    pub(crate) fn is_cuda(&self) -> bool {
        self.0.device().is_cuda()
    }
}
