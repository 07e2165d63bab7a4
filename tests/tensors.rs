//! The ways from and to `tch`: any strides, and nothing converted without being asked.
#![cfg(feature = "libtorch")]

mod common;

use common::assert_bits_eq;
use torchlean::tch::{Device, Kind, Tensor};
use torchlean::{Buffer, DeviceKind, Error, Result};

/// A tensor on the selected device, 0 to n - 1.
fn counting(n: i64, device: DeviceKind) -> Tensor {
    let place = if device == DeviceKind::Cuda {
        Device::Cuda(0)
    } else {
        Device::Cpu
    };
    Tensor::arange(n, (Kind::Float, place))
}

#[test]
fn any_strides_are_read_rightly() -> Result<()> {
    let device = need_device_or_ok!();
    let matrix = counting(6, device).view([2, 3]);
    let rows: Vec<(Tensor, Vec<usize>, Vec<f32>)> = vec![
        (
            matrix.shallow_clone(),
            vec![2, 3],
            vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        ),
        (matrix.tr(), vec![3, 2], vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]),
        (matrix.select(1, 1), vec![2], vec![1.0, 4.0]),
        (
            matrix.slice(1, 0, 3, 2),
            vec![2, 2],
            vec![0.0, 2.0, 3.0, 5.0],
        ),
        (
            counting(2, device).unsqueeze(1).expand([2, 3], false),
            vec![2, 3],
            vec![0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        ),
        (matrix.select(0, 1).select(0, 2), vec![], vec![5.0]),
        (counting(0, device).view([0, 4]), vec![0, 4], vec![]),
        (
            matrix.flip([1]),
            vec![2, 3],
            vec![2.0, 1.0, 0.0, 5.0, 4.0, 3.0],
        ),
        // A lazily negated view: the imaginary part of a conjugate.
        (
            Tensor::complex(&matrix, &matrix).conj().imag(),
            vec![2, 3],
            vec![-0.0, -1.0, -2.0, -3.0, -4.0, -5.0],
        ),
    ];
    for (k, (tensor, shape, values)) in rows.iter().enumerate() {
        let read = Buffer::from_tensor(tensor)?;
        assert_eq!(read.shape(), shape, "row {k}");
        assert_bits_eq(&format!("row {k}"), &read.to_vec()?, values);
        let back = read.into_tensor()?;
        assert_eq!(
            back.size(),
            shape.iter().map(|&n| n as i64).collect::<Vec<_>>()
        );
        assert!(back.is_contiguous());
        // Adopted it is read as rightly, or refused.
        // SAFETY: nothing writes the tensor while the buffer lives.
        match unsafe { Buffer::adopt_tensor(tensor.shallow_clone()) } {
            Ok(adopted) => assert_bits_eq(&format!("row {k}"), &adopted.to_vec()?, values),
            Err(error) => assert!(matches!(error, Error::UnsupportedTensor { .. }), "{error}"),
        }
    }
    Ok(())
}

#[test]
fn a_tensor_that_comes_in_is_copied() -> Result<()> {
    let device = need_device_or_ok!();
    let mut tensor = counting(3, device);
    let buffer = Buffer::from_tensor(&tensor)?;
    let _ = tensor.fill_(9.0);
    assert_bits_eq("unchanged", &buffer.to_vec()?, &[0.0, 1.0, 2.0]);

    // Going out, a shared buffer is copied, and the sole owner's tensor moves.
    let kept = buffer.clone();
    let _ = buffer.into_tensor()?.fill_(9.0);
    assert_bits_eq("unchanged", &kept.to_vec()?, &[0.0, 1.0, 2.0]);
    let moved = kept.into_tensor()?;
    assert!(!moved.requires_grad());
    // SAFETY: the tensor is this test's alone.
    let adopted = unsafe { Buffer::adopt_tensor(moved) }?;
    assert_bits_eq("the same values", &adopted.to_vec()?, &[0.0, 1.0, 2.0]);
    Ok(())
}

/// pytorch 183986, 76176: refused with the property and the remedy, never read wrongly.
#[test]
fn what_is_not_a_plain_float32_tensor_is_refused() -> Result<()> {
    let device = need_device_or_ok!();
    let plain = counting(3, device);
    let rows: Vec<(Tensor, &str)> = vec![
        (
            plain.to_kind(Kind::Double),
            "expected float32, got Double; call `to_kind(tch::Kind::Float)`",
        ),
        (plain.to_kind(Kind::Half), "expected float32, got Half"),
        (plain.to_kind(Kind::Int64), "expected float32, got Int64"),
        (plain.to_kind(Kind::Bool), "expected float32, got Bool"),
        (
            Tensor::complex(&plain, &plain),
            "expected float32, got ComplexFloat",
        ),
        (plain.copy().set_requires_grad(true), "expected no gradient"),
        (
            plain.copy().set_requires_grad(true) * 2.0,
            "expected no gradient",
        ),
        (plain.to_sparse_sparse_dim(1), "expected a dense tensor"),
        (Tensor::new(), "expected a tensor, got an undefined one"),
    ];
    for (tensor, message) in rows {
        let text = Buffer::from_tensor(&tensor).unwrap_err().to_string();
        assert!(text.contains(message), "{text}");
    }
    if device == DeviceKind::Cuda {
        let elsewhere = Buffer::from_tensor(&counting(3, DeviceKind::Host));
        assert!(matches!(elsewhere, Err(Error::UnsupportedTensor { .. })));
    }
    Ok(())
}
