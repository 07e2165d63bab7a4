//! The one door to libtorch: the list of ATen calls in use, and its twin for a build without libtorch.
//!
//! [`Tensor`] is a flat float32 (or bool, int32 or int64) tensor. The calls below make new tensors (but for the views
//! `view` and `narrow`, and for what works in place), round once, and fuse nothing: no `addcmul`, no `lerp`, no `alpha`
//! but 1.
//!
//! Calls whose name ends in an underscore work in place, as ATen's do. They take the tensor, which must be one that
//! nothing else holds: a result on the way to another. At a million elements new memory costs more than most operations.

#[cfg(feature = "libtorch")]
mod foreign;
#[cfg(feature = "libtorch")]
mod linked;
#[cfg(feature = "libtorch")]
mod raw;
#[cfg(feature = "libtorch")]
mod spare;
#[cfg(not(feature = "libtorch"))]
mod unlinked;

#[cfg(feature = "libtorch")]
pub(crate) use linked::{Device, Tensor};
#[cfg(not(feature = "libtorch"))]
pub(crate) use unlinked::{Device, Tensor};

use crate::error::{Error, Result};

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
        in_place { $(fn $iname:ident($iself:ident $(, $iarg:ident: $ity:ty)*) = $icall:expr;)* }
        constructors { $($(#[$cdoc:meta])* fn $cname:ident($($carg:ident: $cty:ty),*) = $ccall:expr;)* }
    ) => {
        #[cfg(feature = "libtorch")]
        impl Tensor {
            $($(#[$doc])* pub(crate) fn $name(&$self $(, $arg: $ty)*) -> Result<Tensor> {
                wrap(stringify!($name), $call)
            })*
            $(#[allow(unused_mut)] pub(crate) fn $iname(mut $iself $(, $iarg: $ity)*) -> Result<Tensor> {
                wrap(stringify!($iname), $icall)
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
            $(pub(crate) fn $iname($iself $(, _: $ity)*) -> Result<Tensor> {
                match $iself {}
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
        /// For values that 32 bits hold: an index of half the size.
        fn truncate_short(&self) = self.0.f_to_kind(tch::Kind::Int);
        /// The same elements under another shape, sharing memory.
        fn view(&self, shape: &[i64]) = self.0.f_view_(shape);
        /// `self` where the mask is true, `other` elsewhere.
        fn select(&self, mask: &Tensor, other: &Tensor) = self.0.f_where_self(&mask.0, &other.0);
        /// A contiguous copy that owns its memory.
        fn copy(&self) = copy_of(&self.0);
    }
    in_place {
        fn add_(self, other: &Tensor) = self.0.f_add_(&other.0);
        fn clamp_(self, lo: f32, hi: f32) = with_scalars!(atg_clamp_(&self; lo, hi));
        fn clamp_integer_(self, lo: i64, hi: i64) = with_scalars!(atg_clamp_(&self; lo, hi));
        fn index_add_(self, index: &Tensor, values: &Tensor) = self.0.f_index_add_(0, &index.0, &values.0);
        fn logical_and_(self, other: &Tensor) = self.0.f_logical_and_(&other.0);
        fn logical_not_(self) = self.0.f_logical_not_();
        fn masked_fill_(self, mask: &Tensor, value: f32) = with_scalars!(atg_masked_fill_(&self, mask; value));
        fn mul_(self, other: &Tensor) = self.0.f_mul_(&other.0);
        fn nan_to_zero_(self) = self.0.f_nan_to_num_(0.0, None, None);
        fn sub_(self, other: &Tensor) = self.0.f_sub_(&other.0);
    }
    constructors {
        fn full(n: i64, value: f32, device: Device) = tch::Tensor::f_empty([n], (tch::Kind::Float, device)).map(Tensor::from).and_then(|t| with_scalars!(atg_fill_(&t; value)));
        fn zeros(n: i64, device: Device) = tch::Tensor::f_zeros([n], (tch::Kind::Float, device));
        fn from_floats(values: &[f32], device: Device) = tch::Tensor::f_from_slice(values).and_then(|t| t.f_to_device(device));
        fn from_integers(values: &[i64], device: Device) = tch::Tensor::f_from_slice(values).and_then(|t| t.f_to_device(device));
    }
}

/// How many threads libtorch uses inside an operation.
pub(crate) fn threads() -> usize {
    #[cfg(feature = "libtorch")]
    return usize::try_from(tch::get_num_threads()).map_or(1, |n| n.max(1));
    #[cfg(not(feature = "libtorch"))]
    1
}

/// Frees the memory that is kept for results to come: of the large ones, and of this thread's small ones.
pub(crate) fn free_spare_results() {
    #[cfg(feature = "libtorch")]
    spare::free();
}
