//! Tensors of the user's own: what a buffer takes, and what it gives.

use super::{Device, Tensor, copy_of, failure, wrap};
use crate::error::{Error, Result};

impl Tensor {
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

/// The shape of a tensor that a buffer could hold, or the first reason why it could not.
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
