//! The ways from and to `tch`.

use std::sync::Arc;

use super::Buffer;
use crate::aten::Tensor;
use crate::error::Result;
use crate::runtime;

impl Buffer {
    /// The values of a `tch` tensor, copied: others may hold, map or share its bytes.
    ///
    /// Any rank and any strides (transposed, expanded, sliced) are read rightly. Nothing is converted: a tensor that
    /// is not float32, not on the selected device, or requires a gradient is refused.
    ///
    /// # Errors
    /// [`Error::UnsupportedTensor`](crate::Error::UnsupportedTensor) naming the property and the call that mends it; [`Error::OutOfMemory`](crate::Error::OutOfMemory); the
    /// errors of [`device_kind`](crate::device_kind).
    ///
    /// ```
    /// # use torchlean::{Buffer, tch};
    /// # if torchlean::device_kind().is_ok_and(|kind| kind == torchlean::DeviceKind::Host) {
    /// let tensor = tch::Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).view([2, 2]).tr();
    /// assert_eq!(Buffer::from_tensor(&tensor)?.to_vec()?, [1.0, 3.0, 2.0, 4.0]);
    /// assert!(Buffer::from_tensor(&tensor.to_kind(tch::Kind::Double)).is_err());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn from_tensor(tensor: &tch::Tensor) -> Result<Buffer> {
        let (tensor, shape) = Tensor::import(tensor, runtime::device()?)?;
        Ok(Buffer::new(tensor, shape))
    }

    /// The `tch` tensor itself, without a copy.
    ///
    /// # Safety
    /// For as long as the buffer, or any clone, reshape or tape that shares its storage, lives, nothing else may
    /// write the tensor's memory: no other handle or view of it, no memory map, no blob that it was made from. The
    /// memory must outlive them too.
    ///
    /// # Errors
    /// As [`from_tensor`](Buffer::from_tensor), and [`Error::UnsupportedTensor`](crate::Error::UnsupportedTensor) for strides that are not contiguous.
    pub unsafe fn adopt_tensor(tensor: tch::Tensor) -> Result<Buffer> {
        let (tensor, shape) = Tensor::adopt(tensor, runtime::device()?)?;
        Ok(Buffer::new(tensor, shape))
    }

    /// The values as a `tch` tensor: the sole owner's tensor moves, a shared one is copied.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) where a copy is needed.
    pub fn into_tensor(self) -> Result<tch::Tensor> {
        match Arc::try_unwrap(self.storage) {
            Ok(storage) => storage.tensor.export(&self.shape),
            Err(shared) => shared.tensor.copy()?.export(&self.shape),
        }
    }
}
