//! What the test binaries share: the session, comparison by bits, data, and one case per operation.

#![allow(dead_code)] // each binary uses its part

pub mod cases;
pub mod data;

use std::sync::Once;

use torchlean::host::InstructionSet;
use torchlean::runtime::Path;
use torchlean::{DeviceKind, Error, RuntimeStatus, device_kind, runtime, runtime_status};

fn required(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

/// The device that the suite runs on, or `None` where there is none and none is required.
///
/// Printed once per binary, with a check that it agrees with the variable and the visible devices.
/// `TORCHLEAN_REQUIRE_NATIVE=1` makes "no device" a failure; `TORCHLEAN_REQUIRE_CUDA=1`, or the feature `cuda`, makes
/// everything but CUDA one.
pub fn session() -> Option<DeviceKind> {
    let require_cuda = required("TORCHLEAN_REQUIRE_CUDA") || cfg!(feature = "cuda");
    let require_native = require_cuda || required("TORCHLEAN_REQUIRE_NATIVE");
    let device = device_kind();
    static HEADER: Once = Once::new();
    // Of the child processes of a test each prints its own.
    HEADER.call_once(|| {
        let report = runtime::report();
        let sdk = report.sdk_version.unwrap_or("not linked");
        match &device {
            Ok(kind) => eprintln!(
                "torchlean tests: libtorch {sdk}, on the {kind}: {}",
                report.reason()
            ),
            Err(reason) => eprintln!(
                "torchlean tests: libtorch {sdk}; what needs a device is skipped: {reason}"
            ),
        }
    });
    match device {
        Ok(kind) => {
            let variable = std::env::var_os(runtime::DEVICE_VARIABLE);
            let visible = runtime::visible_cuda_devices().unwrap();
            let cuda = visible > 0 && variable.is_none_or(|value| value != "cpu");
            assert_eq!(
                kind == DeviceKind::Cuda,
                cuda,
                "the device disagrees with the variable or the visible count"
            );
            assert_eq!(runtime_status(), RuntimeStatus::NativeAvailable);
            assert!(
                !require_cuda || kind == DeviceKind::Cuda,
                "a CUDA device is required, but this is the {kind}"
            );
            Some(kind)
        }
        Err(reason) => {
            let unlinked = matches!(reason, Error::NotLinked);
            let status = if unlinked {
                RuntimeStatus::NotLinked
            } else {
                RuntimeStatus::NativeUnavailable
            };
            assert_eq!(runtime_status(), status);
            assert!(
                !require_native,
                "a device is required, but there is none: {reason}"
            );
            None
        }
    }
}

/// Runs a test in every form that this machine has: composed, and fused for each instruction set.
pub fn in_every_form(mut test: impl FnMut(&str)) {
    runtime::with_path(Path::Composed, || test("composed"));
    for &set in InstructionSet::available() {
        let name = format!("fused for {set}");
        runtime::with_path(Path::Fused, || {
            runtime::with_instruction_set(set, || test(&name));
        });
    }
}

/// As `in_every_form`, for a test of its own that needs a device.
pub fn in_every_form_on_the_device(test: impl Fn() -> torchlean::Result<()>) {
    if session().is_some() {
        in_every_form(|form| test().unwrap_or_else(|error| panic!("{form}: {error}")));
    }
}

/// Ends a test that needs a device where there is none and none is required.
#[macro_export]
macro_rules! need_device {
    () => {
        match $crate::common::session() {
            Some(kind) => kind,
            None => return,
        }
    };
}

/// As `need_device`, in a test that returns a result.
#[macro_export]
macro_rules! need_device_or_ok {
    () => {
        match $crate::common::session() {
            Some(kind) => kind,
            None => return Ok(()),
        }
    };
}

/// Equal bits, or both NaN.
pub fn same_bits(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Fails at the first element whose bits differ, printing it in decimal and in hex.
#[track_caller]
pub fn assert_bits_eq(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}: lengths");
    let differs = |&(_, (&got, &want)): &(usize, (&f32, &f32))| !same_bits(got, want);
    if let Some((k, (got, want))) = got.iter().zip(want).enumerate().find(differs) {
        panic!(
            "{what}: element {k}: got {got:e} ({:08x}), want {want:e} ({:08x})",
            got.to_bits(),
            want.to_bits()
        );
    }
}

/// Bytes of this process that lie in memory.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0_u64)
        * 4096
}

/// How many times longer than usual a test that may run for long does: TORCHLEAN_STRESS.
pub fn stress_factor() -> usize {
    let factor = std::env::var("TORCHLEAN_STRESS").ok();
    factor.and_then(|text| text.parse().ok()).unwrap_or(1)
}
