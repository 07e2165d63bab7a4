//! [`Buffer`]: the values that everything computes on.

#[cfg(feature = "libtorch")]
mod tensor;

use std::fmt;
use std::sync::Arc;

use crate::aten::{Device, Tensor};
use crate::error::{Error, Result, reserved};
use crate::runtime::{self, Counted, DeviceKind, Path};

/// An immutable, shaped block of float32 values on the selected device.
///
/// A buffer is a shape and a shared handle to its storage: `clone` and [`reshape`](Buffer::reshape) copy no values,
/// operations make new storage. Values are contiguous, the last axis fastest. Rank 0 is one element. Buffers may be
/// shared between threads.
///
/// Writing into one ([`axpy`](Buffer::axpy)) needs sole ownership of the storage and is an error without it, so a
/// value that a tape has saved cannot change under it.
///
/// ```
/// use torchlean::Buffer;
/// # if torchlean::device_kind().is_ok() {
/// let x = Buffer::from_slice(&[1.0, 2.0, 3.0, 4.0], &[2, 2])?;
/// let flat = x.reshape(&[4])?;
/// assert_eq!(flat.shape(), [4]);
/// assert_eq!(flat.add(&flat)?.to_vec()?, [2.0, 4.0, 6.0, 8.0]);
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
#[derive(Clone)]
pub struct Buffer {
    storage: Arc<Storage>,
    shape: Arc<[usize]>,
}

/// A flat tensor that nothing else reaches, and its entry in the payload counters.
struct Storage {
    tensor: Tensor,
    _counted: Counted,
}

/// A result on the host that a kernel is to write, every element of it.
pub(crate) struct Unwritten {
    tensor: Tensor,
    shape: Arc<[usize]>,
}

impl Unwritten {
    /// With a buffer's shape.
    pub(crate) fn like(buffer: &Buffer) -> Result<Unwritten> {
        Unwritten::new(Arc::clone(&buffer.shape))
    }

    /// With a shape that was checked.
    pub(crate) fn new(shape: impl Into<Arc<[usize]>>) -> Result<Unwritten> {
        let shape = shape.into();
        let n: usize = shape.iter().product();
        let tensor = Tensor::for_result(n)?;
        Ok(Unwritten { tensor, shape })
    }

    /// Where the kernel writes.
    pub(crate) fn slice(&mut self) -> &mut [f32] {
        let n = self.shape.iter().product();
        self.tensor.host_slice_mut(n)
    }

    /// The buffer, once written.
    pub(crate) fn written(self) -> Buffer {
        Buffer::new(self.tensor, self.shape)
    }
}

/// The most floats whose bytes fit the address space.
const MOST: usize = isize::MAX as usize / size_of::<f32>();

/// The number of elements of a shape whose bytes fit the address space.
///
/// An empty axis does not excuse the others: with it left out they must fit too, so that any product over some of the
/// axes does.
pub(crate) fn elements(op: &'static str, shape: &[usize]) -> Result<usize> {
    let without_empty = shape
        .iter()
        .try_fold(1_usize, |n, &axis| n.checked_mul(axis.max(1)))
        .filter(|&n| n <= MOST);
    match without_empty {
        Some(_) if shape.contains(&0) => Ok(0),
        Some(n) => Ok(n),
        None => Err(Error::SizeOverflow {
            op,
            shape: shape.to_vec(),
        }),
    }
}

impl Buffer {
    /// Takes a flat tensor of the crate's own making, whose memory nothing else reaches.
    pub(crate) fn new(tensor: Tensor, shape: impl Into<Arc<[usize]>>) -> Buffer {
        let shape = shape.into();
        let n = shape.iter().product();
        Buffer {
            storage: Arc::new(Storage {
                tensor,
                _counted: Counted::new(n),
            }),
            shape,
        }
    }

    /// A result with this buffer's shape.
    pub(crate) fn like(&self, tensor: Tensor) -> Buffer {
        Buffer::new(tensor, Arc::clone(&self.shape))
    }

    /// Whether this thread computes on this buffer with the host's own kernels.
    pub(crate) fn fused(&self) -> bool {
        runtime::path() == Path::Fused && runtime::on_host()
    }

    /// The values of a buffer on the host.
    pub(crate) fn host_slice(&self) -> &[f32] {
        self.tensor().host_slice(self.len())
    }

    /// The flat tensor.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.storage.tensor
    }

    /// Values copied to the selected device, under a shape; the last axis is the fastest.
    ///
    /// # Errors
    /// [`Error::Shape`] where the shape's element count is not the slice's length; [`Error::OutOfMemory`]; the
    /// errors of [`device_kind`](crate::device_kind).
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// assert_eq!(Buffer::from_slice(&[1.0, 2.0], &[1, 2])?.shape(), [1, 2]);
    /// assert!(Buffer::from_slice(&[1.0, 2.0], &[3]).is_err());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn from_slice(values: &[f32], shape: &[usize]) -> Result<Buffer> {
        let op = "from_slice";
        let device = runtime::device()?;
        if elements(op, shape)? != values.len() {
            let expected = format!(
                "a shape of {} elements, as many as the slice has",
                values.len()
            );
            return Err(Error::Shape {
                op,
                expected,
                found: shape.to_vec(),
            });
        }
        Ok(Buffer::new(Tensor::from_floats(values, device)?, shape))
    }

    /// One value, rank 0.
    ///
    /// # Errors
    /// Those of [`device_kind`](crate::device_kind).
    pub fn scalar(value: f32) -> Result<Buffer> {
        Buffer::full(&[], value)
    }

    /// +0.0 throughout.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`]; [`Error::OutOfMemory`]; the errors of [`device_kind`](crate::device_kind).
    pub fn zeros(shape: &[usize]) -> Result<Buffer> {
        let n = elements("zeros", shape)?;
        Ok(Buffer::new(
            Tensor::zeros(n as i64, runtime::device()?)?,
            shape,
        ))
    }

    /// One value throughout.
    ///
    /// # Errors
    /// As [`zeros`](Buffer::zeros).
    pub fn full(shape: &[usize], value: f32) -> Result<Buffer> {
        let n = elements("full", shape)?;
        Ok(Buffer::new(
            Tensor::full(n as i64, value, runtime::device()?)?,
            shape,
        ))
    }

    /// The length of each axis; empty for rank 0.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements: the product of the shape, 1 for rank 0.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True where there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the values live, asked of the storage itself.
    pub fn device_kind(&self) -> DeviceKind {
        if self.tensor().is_cuda() {
            DeviceKind::Cuda
        } else {
            DeviceKind::Host
        }
    }

    /// The same storage under another shape of as many elements; no values are copied.
    ///
    /// # Errors
    /// [`Error::Shape`] where the element counts differ; [`Error::SizeOverflow`].
    pub fn reshape(&self, shape: &[usize]) -> Result<Buffer> {
        let op = "reshape";
        if elements(op, shape)? != self.len() {
            let expected = format!("{} elements, as {:?} has", self.len(), self.shape());
            return Err(Error::Shape {
                op,
                expected,
                found: shape.to_vec(),
            });
        }
        Ok(Buffer {
            storage: Arc::clone(&self.storage),
            shape: shape.into(),
        })
    }

    /// The values, copied to the host.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; a failing copy from the device.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        let mut values = reserved("to_vec", self.len())?;
        self.with_host_slice(|slice| values.extend_from_slice(slice))?;
        Ok(values)
    }

    /// The values, copied into memory of the caller's.
    ///
    /// # Errors
    /// [`Error::Shape`] where the slice's length is not [`len`](Buffer::len); a failing copy from the device.
    pub fn copy_to_slice(&self, out: &mut [f32]) -> Result<()> {
        if out.len() != self.len() {
            let expected = format!("a slice of {} elements", self.len());
            return Err(Error::Shape {
                op: "copy_to_slice",
                expected,
                found: vec![out.len()],
            });
        }
        self.with_host_slice(|slice| out.copy_from_slice(slice))
    }

    fn with_host_slice(&self, f: impl FnOnce(&[f32])) -> Result<()> {
        if self.tensor().is_cuda() {
            f(self.tensor().to_device(Device::Cpu)?.host_slice(self.len()));
        } else {
            f(self.host_slice());
        }
        Ok(())
    }

    /// The value of a one-element buffer of any rank.
    ///
    /// # Errors
    /// [`Error::Shape`] where there is not exactly one element; a failing copy from the device.
    pub fn item(&self) -> Result<f32> {
        let mut value = [0.0];
        if self.len() != 1 {
            let expected = "exactly one element".to_owned();
            return Err(Error::Shape {
                op: "item",
                expected,
                found: self.shape().to_vec(),
            });
        }
        self.copy_to_slice(&mut value)?;
        Ok(value[0])
    }

    /// Where a kernel writes a result of `shape`: the whole of this buffer, on the host and its storage's only owner.
    pub(crate) fn host_slice_mut(
        &mut self,
        op: &'static str,
        shape: &[usize],
    ) -> Result<&mut [f32]> {
        let n = self.len();
        Ok(self.sole(op, shape)?.host_slice_mut(n))
    }

    /// The tensor of a buffer of `shape` that is its storage's only owner.
    pub(crate) fn sole(&mut self, op: &'static str, shape: &[usize]) -> Result<&mut Tensor> {
        if self.shape() != shape {
            let expected = format!("a result of shape {shape:?} to write into");
            return Err(Error::Shape {
                op,
                expected,
                found: self.shape().to_vec(),
            });
        }
        let storage = Arc::get_mut(&mut self.storage).ok_or(Error::SharedStorage { op })?;
        Ok(&mut storage.tensor)
    }

    /// Checks that `self` may be written, then takes the value of `result`.
    pub(crate) fn overwrite(
        &mut self,
        op: &'static str,
        shape: &[usize],
        result: impl FnOnce() -> Result<Buffer>,
    ) -> Result<()> {
        let tensor = self.sole(op, shape)?;
        tensor.copy_in_place(result()?.tensor())
    }

    /// `self + other` for shapes known to agree, in place where the storage is this buffer's alone.
    pub(crate) fn accumulate(mut self, other: &Buffer) -> Result<Buffer> {
        match Arc::get_mut(&mut self.storage) {
            Some(storage) => storage.tensor.add_in_place(other.tensor())?,
            None => return Ok(self.like(self.tensor().add(other.tensor())?)),
        }
        Ok(self)
    }
}

/// The check of every operation on two buffers: nothing is broadcast.
pub(crate) fn same_shape(op: &'static str, a: &Buffer, b: &Buffer) -> Result<()> {
    if a.shape() == b.shape() {
        return Ok(());
    }
    let expected = format!(
        "the same shape twice, {:?} (shapes are not broadcast; reshape or fill first)",
        a.shape()
    );
    Err(Error::Shape {
        op,
        expected,
        found: b.shape().to_vec(),
    })
}

impl fmt::Debug for Buffer {
    /// The shape and the first eight values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = Vec::new();
        let shown =
            self.with_host_slice(|slice| head.extend_from_slice(&slice[..slice.len().min(8)]));
        let mut out = f.debug_struct("Buffer");
        out.field("shape", &self.shape());
        match shown {
            Ok(()) => out.field("values", &head),
            Err(error) => out.field("values", &format_args!("({error})")),
        };
        if self.len() > head.len() {
            out.finish_non_exhaustive()
        } else {
            out.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_overflow_are_errors() {
        for shape in [
            &[usize::MAX][..],
            &[usize::MAX, 2],
            &[1 << 33, 1 << 33],
            &[0, usize::MAX, 2],
            &[usize::MAX, 2, 0],
            &[isize::MAX as usize / 4 + 1],
        ] {
            assert!(
                matches!(elements("op", shape), Err(Error::SizeOverflow { .. })),
                "{shape:?}"
            );
        }
        assert_eq!(elements("op", &[]).ok(), Some(1));
        assert_eq!(elements("op", &[3, 0, 5]).ok(), Some(0));
    }

    #[test]
    fn the_debug_form_shows_the_shape_and_the_first_values() -> Result<()> {
        if runtime::device().is_err() {
            return Ok(());
        }
        let short = Buffer::from_slice(&[1.0, -0.5], &[1, 2])?;
        assert_eq!(
            format!("{short:?}"),
            "Buffer { shape: [1, 2], values: [1.0, -0.5] }"
        );
        let long = format!("{:?}", Buffer::zeros(&[9])?);
        assert!(long.ends_with("0.0], .. }"), "{long}");
        Ok(())
    }

    #[test]
    fn buffers_cross_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Buffer>();
    }
}
