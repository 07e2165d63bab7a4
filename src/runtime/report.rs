//! [`report`]: what would run where, and why, for a person or as JSON.

use std::fmt;
use std::hint::black_box;

use serde_json::{Value, json};

use super::cuda::{CudaDevice, cuda_device};
use super::device::{DeviceKind, device_kind, visible_cuda_devices};
use crate::buffer::Buffer;

/// The variables that change what this crate does, and that change which devices are visible.
const VARIABLES: [&str; 5] = [
    super::DEVICE_VARIABLE,
    "TORCHLEAN_CUDA_DETERMINISTIC_REDUCTIONS",
    "TORCHLEAN_REQUIRE_NATIVE",
    "TORCHLEAN_REQUIRE_CUDA",
    "CUDA_VISIBLE_DEVICES",
];

/// What this build and this process can do; its `Display` is for a person.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The libtorch that the build linked, as `2.11.0+cpu`; `None` without libtorch.
    pub sdk_version: Option<&'static str>,
    /// Where it was when this crate was built.
    pub sdk_root: Option<&'static str>,
    /// Whether it has CUDA.
    pub sdk_has_cuda: bool,
    /// The variables that matter, with their values.
    pub variables: Vec<(&'static str, Option<String>)>,
    /// The visible CUDA devices, or why they could not be asked.
    pub cuda_devices: Vec<Result<CudaDevice, String>>,
    /// The selected device, or the reason for none and what to do.
    pub device: Result<DeviceKind, String>,
    /// A buffer was made and read back, or what went wrong.
    pub buffers: Result<(), String>,
    /// The process flushes subnormal numbers to zero, so results that are subnormal differ from the reference.
    pub flush_to_zero: bool,
}

/// Looks at the build, the environment and the devices, and tries to make a buffer.
///
/// ```
/// let report = torchlean::runtime::report();
/// assert_eq!(report.device.is_ok(), torchlean::device_kind().is_ok());
/// println!("{report}");
/// ```
pub fn report() -> Report {
    let count = visible_cuda_devices().unwrap_or(0);
    Report {
        sdk_version: option_env!("TORCHLEAN_SDK_VERSION"),
        sdk_root: option_env!("TORCHLEAN_SDK_ROOT"),
        sdk_has_cuda: cfg!(torchlean_cuda_sdk),
        variables: VARIABLES
            .map(|name| {
                (
                    name,
                    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()),
                )
            })
            .to_vec(),
        cuda_devices: (0..count)
            .map(|k| cuda_device(k).map_err(|error| error.to_string()))
            .collect(),
        device: device_kind().map_err(|error| error.to_string()),
        buffers: Buffer::scalar(1.0)
            .and_then(|buffer| buffer.item())
            .map(drop)
            .map_err(|error| error.to_string()),
        flush_to_zero: black_box(f32::MIN_POSITIVE) * black_box(0.5) == 0.0,
    }
}

impl Report {
    /// Why the selected device was selected, or none.
    pub fn reason(&self) -> &str {
        if let Err(reason) = &self.device {
            return reason;
        }
        match (&self.variables[0].1, self.sdk_has_cuda) {
            (Some(value), _) if !value.is_empty() => "the variable asks for it",
            (_, true) => "the SDK has CUDA and a device is visible",
            (_, false) => "the SDK has no CUDA",
        }
    }

    /// The same as one JSON object.
    pub fn to_json(&self) -> Value {
        let devices = self.cuda_devices.iter().map(|device| match device {
            Ok(device) => json!({
                "name": device.name,
                "capability": [device.capability.0, device.capability.1],
                "multiprocessors": device.multiprocessors,
                "memory_bytes": device.memory,
            }),
            Err(error) => json!({ "error": error }),
        });
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)));
        json!({
            "sdk": {
                "version": self.sdk_version,
                "root": self.sdk_root,
                "cuda": self.sdk_has_cuda,
            },
            "variables": variables.collect::<serde_json::Map<_, _>>(),
            "cuda_devices": devices.collect::<Vec<_>>(),
            "device": self.device.as_ref().ok().map(ToString::to_string),
            "reason": self.reason(),
            "buffers": self.buffers.is_ok(),
            "error": self.buffers.as_ref().err(),
            "flush_to_zero": self.flush_to_zero,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.sdk_version, self.sdk_root) {
            (Some(version), Some(root)) => {
                let flavour = if self.sdk_has_cuda {
                    "with CUDA"
                } else {
                    "without CUDA"
                };
                writeln!(f, "libtorch   {version}, {flavour}, built against {root}")?;
            }
            _ => writeln!(f, "libtorch   not linked")?,
        }
        for (name, value) in &self.variables {
            match value {
                Some(value) => writeln!(f, "variable   {name}={value}")?,
                None => writeln!(f, "variable   {name} is unset")?,
            }
        }
        if self.cuda_devices.is_empty() {
            writeln!(f, "CUDA       no device is visible")?;
        }
        for (index, device) in self.cuda_devices.iter().enumerate() {
            match device {
                Ok(CudaDevice {
                    name,
                    capability: (major, minor),
                    multiprocessors,
                    memory,
                }) => writeln!(
                    f,
                    "CUDA {index}     {name}, capability {major}.{minor}, {multiprocessors} multiprocessors, {:.1} GiB",
                    *memory as f64 / f64::from(1 << 30)
                )?,
                Err(error) => writeln!(f, "CUDA {index}     {error}")?,
            }
        }
        match &self.device {
            Ok(kind) => writeln!(f, "selected   {kind}: {}", self.reason())?,
            Err(reason) => writeln!(f, "selected   none: {reason}")?,
        }
        if self.flush_to_zero {
            writeln!(
                f,
                "warning    subnormal numbers are flushed to zero, so subnormal results differ from the reference"
            )?;
        }
        match &self.buffers {
            Ok(()) => write!(f, "buffers    can be made"),
            Err(error) => write!(f, "buffers    cannot be made: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Report {
        let device = CudaDevice {
            name: "Example".into(),
            capability: (9, 0),
            multiprocessors: 132,
            memory: 3 << 29,
        };
        Report {
            sdk_version: Some("2.11.0+cu130"),
            sdk_root: Some("/sdk"),
            sdk_has_cuda: true,
            variables: vec![
                (super::super::DEVICE_VARIABLE, None),
                ("OTHER", Some("1".into())),
            ],
            cuda_devices: vec![Ok(device), Err("gone".into())],
            device: Ok(DeviceKind::Cuda),
            buffers: Ok(()),
            flush_to_zero: true,
        }
    }

    #[test]
    fn a_report_says_all_that_it_knows() {
        let text = example().to_string();
        for part in [
            "libtorch   2.11.0+cu130, with CUDA, built against /sdk\n",
            "TORCHLEAN_LIBTORCH_DEVICE is unset\n",
            "OTHER=1\n",
            "CUDA 0     Example, capability 9.0, 132 multiprocessors, 1.5 GiB\n",
            "CUDA 1     gone\n",
            "selected   cuda: the SDK has CUDA and a device is visible\n",
            "subnormal results differ",
            "buffers    can be made",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let json = example().to_json();
        assert_eq!(json["cuda_devices"][0]["capability"], json!([9, 0]));
        assert_eq!(json["cuda_devices"][1]["error"], "gone");
        assert_eq!(json["device"], "cuda");
        assert_eq!(json["variables"]["OTHER"], "1");
        assert_eq!(json["flush_to_zero"], true);
    }

    #[test]
    fn a_report_without_a_device_says_why() {
        let report = Report {
            sdk_version: None,
            cuda_devices: vec![],
            device: Err("the reason".into()),
            buffers: Err("the reason".into()),
            ..example()
        };
        let text = report.to_string();
        for part in [
            "libtorch   not linked\n",
            "CUDA       no device is visible\n",
            "selected   none: the reason\n",
            "buffers    cannot be made: the reason",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(report.to_json()["device"], Value::Null);
        assert_eq!(report.to_json()["error"], "the reason");
    }

    #[test]
    fn a_reason_follows_the_variable_then_the_sdk() {
        let mut report = Report {
            sdk_has_cuda: false,
            device: Ok(DeviceKind::Host),
            ..example()
        };
        assert_eq!(report.reason(), "the SDK has no CUDA");
        report.variables[0].1 = Some(String::new());
        assert_eq!(report.reason(), "the SDK has no CUDA");
        report.variables[0].1 = Some("cpu".into());
        assert_eq!(report.reason(), "the variable asks for it");
    }
}
