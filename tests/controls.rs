//! The controls of the runtime, in a process of their own: one test, so nothing else turns them.

mod common;

use torchlean::runtime::{self, DeviceMemory, Float32Policy};
use torchlean::{Buffer, DeviceKind, Error, Result};

#[test]
fn controls() -> Result<()> {
    let device = need_device_or_ok!();
    let host = device == DeviceKind::Host;

    // float32 at full width from the start, readable and changeable.
    assert_eq!(runtime::float32_policy()?, Float32Policy::default());
    for turn in 0..5 {
        let mut policy = Float32Policy::default();
        let switches = [
            &mut policy.tf32_matmul,
            &mut policy.tf32_cudnn,
            &mut policy.reduced_fp16_sums,
            &mut policy.reduced_bf16_sums,
            &mut policy.cudnn_benchmark,
        ];
        *switches.into_iter().nth(turn).unwrap() = true;
        assert_eq!(
            runtime::set_float32_policy(policy)?,
            Float32Policy::default(),
            "the prior value"
        );
        assert_eq!(runtime::float32_policy()?, policy, "switch {turn} alone");
        assert_eq!(
            runtime::set_float32_policy(Float32Policy::default())?,
            policy
        );
    }

    // What waits and what frees returns at once on the host.
    runtime::synchronize()?;
    runtime::empty_cache()?;

    // Peaks start anew from what is held.
    let kept = Buffer::zeros(&[1000])?;
    drop(Buffer::zeros(&[1 << 20])?);
    assert!(runtime::payload().peak >= 4 << 20);
    runtime::reset_peak()?;
    assert_eq!(runtime::payload().peak, runtime::payload().live);
    assert_eq!(runtime::payload().live, 4000);
    drop(kept);

    let visible = runtime::visible_cuda_devices()?;
    assert!(
        matches!(
            runtime::cuda_device(visible),
            Err(Error::InvalidArgument { .. })
        ),
        "an index out of range"
    );
    for index in 0..visible {
        let identity = runtime::cuda_device(index)?;
        assert!(
            !identity.name.is_empty() && identity.memory > 0 && identity.multiprocessors > 0,
            "{identity:?}"
        );
    }

    let memory = runtime::device_memory()?;
    let line = runtime::memory_report()?;
    assert!(
        line.starts_with("buffers: 0.0 MiB held") && !line.contains('\n'),
        "{line}"
    );
    if host {
        assert_eq!(
            memory,
            DeviceMemory::default(),
            "the host has no counters of an allocator or driver"
        );
        for refused in [
            runtime::set_memory_fraction(0.5).map(drop),
            runtime::set_device(0).map(drop),
            torchlean::require_cuda_device(),
        ] {
            assert!(
                matches!(refused, Err(Error::CudaRequired { .. })),
                "{refused:?}"
            );
        }
    } else {
        assert!(
            memory.driver_total > 0 && memory.allocated_peak > 0,
            "{memory:?}"
        );
        assert!(matches!(
            runtime::set_memory_fraction(1.5),
            Err(Error::InvalidArgument { .. })
        ));
        let before = runtime::set_memory_fraction(0.5)?;
        assert_eq!(runtime::set_memory_fraction(before)?, 0.5);
        assert!(runtime::set_device(0).is_err(), "a buffer has been made");
        assert!(runtime::set_device(visible).is_err());
    }

    // A failed allocation says how much was asked for, leaks nothing, and the next operation works.
    let before = runtime::payload();
    for n in [1_usize << 44, 1 << 50] {
        match Buffer::zeros(&[n]) {
            Err(Error::OutOfMemory { bytes, .. }) if host => assert_eq!(bytes, 4 * n as u64),
            Err(Error::OutOfMemory { .. }) => {}
            other => panic!("{n} elements: {:?}", other.map(drop)),
        }
    }
    assert_eq!(runtime::payload(), before);
    assert_eq!(
        Buffer::full(&[3], 2.0)?
            .add(&Buffer::full(&[3], 1.0)?)?
            .to_vec()?,
        [3.0; 3]
    );
    Ok(())
}
