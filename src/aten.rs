//! The one door to libtorch: the list of ATen calls in use, and its twin for a build without libtorch.
//!
//! [`Tensor`] is a flat float32 (or bool, or int64) tensor. The calls below make new tensors, round once, and fuse
//! nothing: no `addcmul`, no `lerp`, no `alpha` but 1.

#[cfg(feature = "libtorch")]
pub(crate) use linked::{Device, Tensor};
#[cfg(not(feature = "libtorch"))]
pub(crate) use unlinked::{Device, Tensor};

use crate::error::{Error, Result};

#[cfg(feature = "libtorch")]
mod linked {
    pub(crate) use tch::Device;

    use std::cell::RefCell;
    use std::mem::ManuallyDrop;
    use std::ptr::null_mut;
    use std::sync::atomic::AtomicPtr;

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

    /// The most floats that a spare tensor has.
    pub(super) const SPARE_SIZE: usize = 16 * 1024;

    /// The most spare tensors of a thread: 1 MiB with the size above.
    const SPARE_COUNT: usize = 16;

    thread_local! {
        /// Small results that are no longer needed, for the next of their size: libtorch takes a microsecond to make one.
        static SPARE: RefCell<Vec<(usize, tch::Tensor)>> = const { RefCell::new(Vec::new()) };
    }

    impl From<tch::Tensor> for Tensor {
        fn from(tensor: tch::Tensor) -> Tensor {
            let data = AtomicPtr::new(null_mut());
            Tensor(ManuallyDrop::new(tensor), Memory { data, spare: 0 })
        }
    }

    impl Tensor {
        /// A spare tensor of `n` floats on the host.
        pub(super) fn spare(n: usize) -> Option<Tensor> {
            let tensor = SPARE.with_borrow_mut(|spare| {
                let place = spare.iter().rposition(|(size, _)| *size == n)?;
                Some(spare.swap_remove(place).1)
            });
            tensor.map(Tensor::from)
        }
    }

    impl Drop for Tensor {
        fn drop(&mut self) {
            // SAFETY: the handle is taken once, here.
            let tensor = unsafe { ManuallyDrop::take(&mut self.0) };
            if self.1.spare > 0 {
                // At the end of a thread there are no spare ones any more.
                let _ = SPARE.try_with(|spare| {
                    let mut spare = spare.borrow_mut();
                    if spare.len() == SPARE_COUNT {
                        drop(spare.remove(0));
                    }
                    spare.push((self.1.spare, tensor));
                });
            }
        }
    }

    // SAFETY: a handle may move between threads (`tch::Tensor` is `Send`). Shared references reach nothing but ATen
    // functions that take their operands const, and reads of the memory; writes need `&mut Tensor`, which `Buffer`
    // hands out only to the sole owner. ATen's reference counts are atomic.
    unsafe impl Sync for Tensor {}
}

#[cfg(not(feature = "libtorch"))]
mod unlinked {
    /// No tensor exists without libtorch.
    #[derive(Debug)]
    pub(crate) enum Tensor {}

    /// The devices that a linked build knows.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Device {
        Cpu,
        Cuda(#[allow(dead_code)] usize),
    }
}

#[cfg(feature = "libtorch")]
fn wrap(call: &'static str, result: Result<tch::Tensor, tch::TchError>) -> Result<Tensor> {
    result
        .map(Tensor::from)
        .map_err(|error| failure(call, error))
}

#[cfg(feature = "libtorch")]
fn failure(call: &'static str, error: tch::TchError) -> Error {
    match error {
        tch::TchError::Torch(text) => Error::from_libtorch(call, &text),
        other => Error::from_libtorch(call, &other.to_string()),
    }
}

/// A contiguous copy, whatever the strides.
#[cfg(feature = "libtorch")]
fn copy_of(tensor: &tch::Tensor) -> Result<tch::Tensor, tch::TchError> {
    let mut copy = tch::Tensor::f_empty(tensor.size(), (tch::Kind::Float, tensor.device()))?;
    copy.f_copy_(tensor)?;
    Ok(copy)
}

/// Calls that take scalars, by torch-sys: in `tch` a scalar's drop comes before the look at the error, takes it for its
/// own, and panics.
#[cfg(feature = "libtorch")]
mod raw {
    use std::ffi::CStr;
    use std::ptr;

    use torch_sys::{C_scalar, C_tensor};

    use super::Tensor;

    pub(super) struct Scalar(*mut C_scalar);

    impl Scalar {
        pub(super) fn pointer(&self) -> *mut C_scalar {
            self.0
        }
    }

    impl From<f32> for Scalar {
        fn from(value: f32) -> Scalar {
            // SAFETY: takes a plain number and returns a scalar that this struct owns.
            Scalar(unsafe { torch_sys::ats_float(value.into()) })
        }
    }

    impl From<i64> for Scalar {
        fn from(value: i64) -> Scalar {
            // SAFETY: as above.
            Scalar(unsafe { torch_sys::ats_int(value) })
        }
    }

    impl Drop for Scalar {
        fn drop(&mut self) {
            // SAFETY: made by ats_float or ats_int, and freed once.
            unsafe { torch_sys::ats_free(self.0) }
        }
    }

    pub(super) fn pointer(tensor: &Tensor) -> *mut C_tensor {
        tensor.0.as_ptr().cast_mut()
    }

    /// Runs a call that leaves one tensor in `out`, or a message.
    pub(super) fn call(f: impl FnOnce(*mut *mut C_tensor)) -> Result<tch::Tensor, tch::TchError> {
        let mut out = ptr::null_mut();
        f(&mut out);
        // SAFETY: gives this thread's message, or null; it is freed once, below.
        let message = unsafe { torch_sys::get_and_reset_last_err() };
        if message.is_null() {
            // SAFETY: without a message `out` is a new tensor that nothing else owns.
            return Ok(unsafe { tch::Tensor::from_ptr(out) });
        }
        // SAFETY: a NUL-terminated string of C's allocator, owned by this function.
        let text = unsafe { CStr::from_ptr(message) }
            .to_string_lossy()
            .into_owned();
        // SAFETY: as above, and not read any more.
        unsafe { libc::free(message.cast()) };
        Err(tch::TchError::Torch(text))
    }
}

#[cfg(feature = "libtorch")]
macro_rules! with_scalars {
    ($call:ident($($tensor:expr),+; $($scalar:expr),+)) => {
        raw::call(|out| {
            // SAFETY: the pointers are those of tensors and scalars that live through the call, which reads them; `out`
            // is a place for one tensor.
            unsafe {
                torch_sys::c_generated::$call(
                    out,
                    $(raw::pointer($tensor),)+
                    $(raw::Scalar::from($scalar).pointer()),+
                )
            }
        })
    };
}

/// Each line is one call: our name and arguments, `=`, and the ATen method that it stands for.
macro_rules! aten {
    (
        methods { $($(#[$doc:meta])* fn $name:ident(&$self:ident $(, $arg:ident: $ty:ty)*) = $call:expr;)* }
        constructors { $($(#[$cdoc:meta])* fn $cname:ident($($carg:ident: $cty:ty),*) = $ccall:expr;)* }
    ) => {
        #[cfg(feature = "libtorch")]
        impl Tensor {
            $($(#[$doc])* pub(crate) fn $name(&$self $(, $arg: $ty)*) -> Result<Tensor> {
                wrap(stringify!($name), $call)
            })*
            $($(#[$cdoc])* pub(crate) fn $cname($($carg: $cty),*) -> Result<Tensor> {
                wrap(stringify!($cname), $ccall)
            })*
        }
        #[cfg(not(feature = "libtorch"))]
        impl Tensor {
            $($(#[$doc])* pub(crate) fn $name(&$self $(, _: $ty)*) -> Result<Tensor> {
                match *$self {}
            })*
            $($(#[$cdoc])* pub(crate) fn $cname($(_: $cty),*) -> Result<Tensor> {
                Err(Error::NotLinked)
            })*
        }
    };
}

aten! {
    methods {
        fn abs(&self) = self.0.f_abs();
        fn add(&self, other: &Tensor) = self.0.f_add(&other.0);
        fn add_scalar(&self, value: f32) = with_scalars!(atg_add_scalar(self; value));
        fn clamp(&self, lo: f32, hi: f32) = with_scalars!(atg_clamp(self; lo, hi));
        fn clamp_integer(&self, lo: i64, hi: i64) = with_scalars!(atg_clamp(self; lo, hi));
        fn div(&self, other: &Tensor) = self.0.f_div(&other.0);
        fn equal(&self, other: &Tensor) = self.0.f_eq_tensor(&other.0);
        /// One element, repeated; the copy is contiguous.
        fn expand(&self, n: i64) = self.0.f_expand([n], false).and_then(|view| copy_of(&view));
        fn floor(&self) = self.0.f_floor();
        fn ge(&self, value: f32) = with_scalars!(atg_ge(self; value));
        fn greater(&self, other: &Tensor) = self.0.f_gt_tensor(&other.0);
        fn gt(&self, value: f32) = with_scalars!(atg_gt(self; value));
        /// Adds the rows of `values` to the rows of `self` that `index` names, in order on the host.
        fn index_add(&self, index: &Tensor, values: &Tensor) = self.0.f_index_add(0, &index.0, &values.0);
        fn index_select(&self, index: &Tensor) = self.0.f_index_select(0, &index.0);
        fn is_nan(&self) = self.0.f_isnan();
        fn le(&self, value: f32) = with_scalars!(atg_le(self; value));
        fn logical_and(&self, other: &Tensor) = self.0.f_logical_and(&other.0);
        fn logical_not(&self) = self.0.f_logical_not();
        fn logical_or(&self, other: &Tensor) = self.0.f_logical_or(&other.0);
        fn lt(&self, value: f32) = with_scalars!(atg_lt(self; value));
        /// `value` where the mask is true.
        fn masked_fill(&self, mask: &Tensor, value: f32) = with_scalars!(atg_masked_fill(self, mask; value));
        fn mul(&self, other: &Tensor) = self.0.f_mul(&other.0);
        fn mul_integer(&self, n: i64) = with_scalars!(atg_mul_scalar(self; n));
        fn mul_scalar(&self, value: f32) = with_scalars!(atg_mul_scalar(self; value));
        /// +0.0 for NaN, the largest finite values for the infinities.
        fn nan_to_zero(&self) = self.0.f_nan_to_num(0.0, None, None);
        fn narrow(&self, start: i64, length: i64) = self.0.f_narrow(0, start, length);
        fn neg(&self) = self.0.f_neg();
        fn sign_bit(&self) = self.0.f_signbit();
        /// By way of float64: on the host libtorch's own float32 root is not correctly rounded (that of 0.99999994 is
        /// 1). A root of 24 bits lies at least 4 float64 ulps from a rounding boundary, so the second rounding is safe.
        fn sqrt(&self) = self.0.f_to_kind(tch::Kind::Double).and_then(|x| x.f_sqrt()).and_then(|y| y.f_to_kind(tch::Kind::Float));
        fn sub(&self, other: &Tensor) = self.0.f_sub(&other.0);
        /// The SDK's own sum.
        fn sum(&self) = self.0.f_sum(tch::Kind::Float);
        fn to_device(&self, device: Device) = self.0.f_to_device(device);
        fn truncate(&self) = self.0.f_to_kind(tch::Kind::Int64);
        /// The same elements under another shape, sharing memory.
        fn view(&self, shape: &[i64]) = self.0.f_view_(shape);
        /// `self` where the mask is true, `other` elsewhere.
        fn select(&self, mask: &Tensor, other: &Tensor) = self.0.f_where_self(&mask.0, &other.0);
        /// A contiguous copy that owns its memory.
        fn copy(&self) = copy_of(&self.0);
    }
    constructors {
        fn full(n: i64, value: f32, device: Device) = tch::Tensor::f_empty([n], (tch::Kind::Float, device)).map(Tensor::from).and_then(|t| with_scalars!(atg_fill_(&t; value)));
        fn zeros(n: i64, device: Device) = tch::Tensor::f_zeros([n], (tch::Kind::Float, device));
        fn from_floats(values: &[f32], device: Device) = tch::Tensor::f_from_slice(values).and_then(|t| t.f_to_device(device));
        fn from_integers(values: &[i64], device: Device) = tch::Tensor::f_from_slice(values).and_then(|t| t.f_to_device(device));
    }
}

#[cfg(feature = "libtorch")]
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
        if let Some(mut tensor) = Tensor::spare(n) {
            tensor.1.spare = n;
            return Ok(tensor);
        }
        let options = (tch::Kind::Float, Device::Cpu);
        let mut tensor = wrap("empty", tch::Tensor::f_empty([n as i64], options))?;
        if n <= linked::SPARE_SIZE {
            tensor.1.spare = n;
        }
        tensor.ask_for_huge_pages(n);
        Ok(tensor)
    }

    /// Fewer page faults at the first touch of a large block; a small one only gets slower.
    fn ask_for_huge_pages(&self, n: usize) {
        const LARGE: usize = 32 << 20;
        const PAGE: usize = 4096;
        if n * size_of::<f32>() < LARGE {
            return;
        }
        #[cfg(target_os = "linux")]
        {
            let start = self.data().cast::<u8>();
            let head = start.align_offset(PAGE);
            let length = (n * size_of::<f32>() - head) / PAGE * PAGE;
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

    /// A flat copy of a user's tensor, whatever its strides; what is not float32 and gradient-free is an error.
    pub(crate) fn import(tensor: &tch::Tensor, device: Device) -> Result<(Tensor, Vec<usize>)> {
        let shape = check_foreign("from_tensor", tensor, device)?;
        let flat = copy_of(tensor).and_then(|copy| copy.f_view_([copy.numel() as i64]));
        Ok((wrap("import", flat)?, shape))
    }

    /// A user's tensor itself, flattened without a copy.
    pub(crate) fn adopt(tensor: tch::Tensor, device: Device) -> Result<(Tensor, Vec<usize>)> {
        let shape = check_foreign("adopt_tensor", &tensor, device)?;
        if !tensor.is_contiguous()
            || tensor
                .f_is_neg()
                .map_err(|error| failure("is_neg", error))?
        {
            return Err(Error::UnsupportedTensor {
                op: "adopt_tensor",
                expected: "a contiguous tensor".to_owned(),
                found: format!("strides {:?}, or a lazily negated view", tensor.stride()),
                remedy: "use Buffer::from_tensor, which copies",
            });
        }
        Ok((
            wrap("adopt", tensor.f_view_([tensor.numel() as i64]))?,
            shape,
        ))
    }

    /// The tensor under a shape, for good.
    pub(crate) fn export(mut self, shape: &[usize]) -> Result<tch::Tensor> {
        let shape: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
        self.1.spare = 0; // its memory goes to the caller
        self.0
            .f_view_(shape.as_slice())
            .map_err(|error| failure("view", error))
    }
}

#[cfg(not(feature = "libtorch"))]
impl Tensor {
    pub(crate) fn add_in_place(&mut self, _: &Tensor) -> Result<()> {
        match *self {}
    }

    pub(crate) fn copy_in_place(&mut self, _: &Tensor) -> Result<()> {
        match *self {}
    }

    pub(crate) fn for_result(_: usize) -> Result<Tensor> {
        Err(Error::NotLinked)
    }

    pub(crate) fn host_slice(&self, _: usize) -> &[f32] {
        match *self {}
    }

    pub(crate) fn host_slice_mut(&mut self, _: usize) -> &mut [f32] {
        match *self {}
    }

    pub(crate) fn is_cuda(&self) -> bool {
        match *self {}
    }
}

/// How many threads libtorch uses inside an operation.
pub(crate) fn threads() -> usize {
    #[cfg(feature = "libtorch")]
    return usize::try_from(tch::get_num_threads()).map_or(1, |n| n.max(1));
    #[cfg(not(feature = "libtorch"))]
    1
}

/// The shape of a tensor that a buffer could hold, or the first reason why it could not.
#[cfg(feature = "libtorch")]
fn check_foreign(op: &'static str, tensor: &tch::Tensor, device: Device) -> Result<Vec<usize>> {
    let refuse = |expected: String, found: String, remedy| Error::UnsupportedTensor {
        op,
        expected,
        found,
        remedy,
    };
    if !tensor.defined() {
        return Err(refuse(
            "a tensor".into(),
            "an undefined one".into(),
            "give it values first",
        ));
    }
    let kind = tensor.f_kind().map_err(|error| failure(op, error))?;
    if kind != tch::Kind::Float {
        return Err(refuse(
            "float32".into(),
            format!("{kind:?}"),
            "call `to_kind(tch::Kind::Float)` to round it yourself",
        ));
    }
    if tensor.is_sparse() || tensor.is_mkldnn() {
        return Err(refuse(
            "a dense tensor".into(),
            "a sparse or oneDNN one".into(),
            "call `to_dense`",
        ));
    }
    if tensor.requires_grad() {
        return Err(refuse(
            "no gradient".into(),
            "a tensor that requires one".into(),
            "call `detach`: buffers are recorded by torchlean's Tape, not by libtorch",
        ));
    }
    if tensor.device() != device {
        return Err(refuse(
            format!("{device:?}, the selected device"),
            format!("{:?}", tensor.device()),
            "call `to_device`",
        ));
    }
    tensor
        .size()
        .iter()
        .map(|&n| {
            usize::try_from(n).map_err(|_| {
                refuse(
                    "a shape".into(),
                    format!("{:?}", tensor.size()),
                    "report this",
                )
            })
        })
        .collect()
}
