//! The twin of the handle in a build without libtorch.

use crate::error::{Error, Result};

/// No tensor exists without libtorch.
#[derive(Debug)]
pub(crate) enum Tensor {}

/// The devices that a linked build knows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Device {
    Cpu,
    Cuda(#[allow(dead_code)] usize),
}

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
