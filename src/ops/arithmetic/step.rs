//! `axpy`: the one operation that writes into its own operand.

use super::host;
use crate::buffer::{Buffer, same_shape};
use crate::error::Result;

impl Buffer {
    /// Adds `a * x` in place, the step of gradient descent: the product is rounded, then the sum.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) where the shapes differ; [`Error::SharedStorage`](crate::Error::SharedStorage) where a clone, a reshape or a tape still
    /// holds the storage. On an error nothing has been written.
    ///
    /// ```
    /// # use torchlean::Buffer;
    /// # if torchlean::device_kind().is_ok() {
    /// let mut parameters = Buffer::from_slice(&[1.0, 2.0], &[2])?;
    /// let gradient = Buffer::from_slice(&[4.0, 8.0], &[2])?;
    /// parameters.axpy(-0.25, &gradient)?;
    /// assert_eq!(parameters.to_vec()?, [0.0, 0.0]);
    ///
    /// let saved = parameters.clone();
    /// assert!(parameters.axpy(1.0, &gradient).is_err());
    /// # }
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn axpy(&mut self, a: f32, x: &Buffer) -> Result<()> {
        let op = "axpy";
        same_shape(op, self, x)?;
        if x.fused() {
            return host::axpy(a, x.host_slice(), self.host_slice_mut(op, x.shape())?);
        }
        let tensor = self.sole(op, x.shape())?;
        tensor.add_in_place(&x.tensor().mul_scalar(a)?)
    }
}
