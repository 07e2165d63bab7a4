//! Which device buffers live on: chosen once per process, from one variable and what the SDK can do.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::sys;

/// The variable that chooses the device: unset or empty, `cpu` or `cuda`.
pub const DEVICE_VARIABLE: &str = "TORCHLEAN_LIBTORCH_DEVICE";

/// Where buffers live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The processor and its memory.
    Host,
    /// A CUDA device: the first visible one, or the one that [`set_device`](super::set_device) chose.
    Cuda,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Host => "host",
            DeviceKind::Cuda => "cuda",
        })
    }
}

/// Why no device could be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The SDK has CUDA, but no device is visible and the host was not asked for.
    #[error(
        "the libtorch SDK has CUDA, but no CUDA device is visible; check the driver and CUDA_VISIBLE_DEVICES, \
         or set {DEVICE_VARIABLE}=cpu to compute on the host"
    )]
    NoVisibleDevice,
    /// `cuda` was asked for, and the SDK of this build has none.
    #[error(
        "{DEVICE_VARIABLE} is `cuda`, but the libtorch SDK of this build has no CUDA; build against one that has, \
         or set {DEVICE_VARIABLE}=cpu or unset it to compute on the host"
    )]
    SdkWithoutCuda,
    /// The SDK had no CUDA when this was built and has it now: it was replaced, and Cargo did not notice.
    #[error(
        "the libtorch SDK in {root} has CUDA, but had none when this was built; run `cargo clean -p torchlean -p torch-sys` \
         and build again, or set {DEVICE_VARIABLE}=cpu to compute on the host"
    )]
    StaleBuild {
        /// The SDK's folder.
        root: String,
    },
    /// The variable holds something else than the two that are allowed.
    #[error("{DEVICE_VARIABLE} is `{value}`; allowed are `cpu` and `cuda`, or unset it")]
    UnknownDevice {
        /// The variable's value.
        value: String,
    },
    /// libtorch failed when asked for the number of devices or when its switches were set.
    #[error("libtorch could not be started: {message}")]
    LibtorchFailed {
        /// What it said.
        message: String,
    },
}

/// What this build, in this process, can compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeStatus {
    /// Built without libtorch; wins over everything else.
    NotLinked,
    /// A device is selected, CUDA or the host.
    NativeAvailable,
    /// libtorch is linked, but no device is selected; [`device_kind`] has the reason.
    NativeUnavailable,
}

/// The selection table as a pure function of the variable, the SDK and the number of visible devices.
///
/// | `TORCHLEAN_LIBTORCH_DEVICE` | SDK has CUDA, a device is visible | SDK has CUDA, none visible | SDK without CUDA |
/// |---|---|---|---|
/// | unset or empty | CUDA | refused, never silently the host | host |
/// | `cpu` | host | host | host |
/// | `cuda` | CUDA | refused | refused |
/// | anything else | refused | refused | refused |
///
/// # Errors
/// The [`Refusal`] that says which of the causes it was.
///
/// ```
/// use torchlean::{DeviceKind, runtime};
/// assert_eq!(runtime::select(None, true, 1), Ok(DeviceKind::Cuda));
/// assert_eq!(runtime::select(None, true, 0), Err(runtime::Refusal::NoVisibleDevice));
/// assert_eq!(runtime::select(Some("cpu".as_ref()), true, 1), Ok(DeviceKind::Host));
/// ```
pub fn select(
    variable: Option<&OsStr>,
    sdk_has_cuda: bool,
    visible: usize,
) -> Result<DeviceKind, Refusal> {
    let asked = variable.unwrap_or_default();
    if asked == "cpu" {
        return Ok(DeviceKind::Host);
    }
    if asked != "cuda" && !asked.is_empty() {
        return Err(Refusal::UnknownDevice {
            value: asked.to_string_lossy().into_owned(),
        });
    }
    match (sdk_has_cuda, visible) {
        (true, 0) => Err(Refusal::NoVisibleDevice),
        (true, _) => Ok(DeviceKind::Cuda),
        (false, _) if asked == "cuda" => Err(Refusal::SdkWithoutCuda),
        (false, _) => Ok(DeviceKind::Host),
    }
}

/// What the process was started with and what became of it.
struct Selection {
    variable: Option<OsString>,
    device: Result<DeviceKind, Refusal>,
}

fn selection() -> &'static Selection {
    static SELECTION: OnceLock<Selection> = OnceLock::new();
    SELECTION.get_or_init(|| {
        let variable = std::env::var_os(DEVICE_VARIABLE);
        // The devices are counted only where the answer matters: a host run never wakes the driver.
        let visible = match select(variable.as_deref(), SDK_HAS_CUDA, 1) {
            Ok(DeviceKind::Cuda) => sys::cuda_device_count(),
            _ => Ok(0),
        };
        let device = visible
            .map_err(|error| Refusal::LibtorchFailed {
                message: error.to_string(),
            })
            .and_then(|visible| select(variable.as_deref(), SDK_HAS_CUDA, visible))
            .and_then(|kind| match option_env!("TORCHLEAN_SDK_ROOT") {
                Some(root) if !SDK_HAS_CUDA && variable.as_deref() != Some(OsStr::new("cpu")) => {
                    still_without_cuda(root).map(|()| kind)
                }
                _ => Ok(kind),
            })
            .and_then(|kind| start().map(|()| kind));
        Selection { variable, device }
    })
}

/// Never silently the host: an SDK that was replaced by one with CUDA, with time stamps that are no younger, leaves a
/// build behind that cannot use it.
fn still_without_cuda(root: &str) -> Result<(), Refusal> {
    if Path::new(root).join("lib/libtorch_cuda.so").is_file() {
        return Err(Refusal::StaleBuild { root: root.into() });
    }
    Ok(())
}

/// What is set before the first buffer: the determinism that the environment asks for, and float32 at its full width.
fn start() -> Result<(), Refusal> {
    super::determinism::start()
        .and_then(|()| super::policy::start())
        .map_err(|error| Refusal::LibtorchFailed {
            message: error.to_string(),
        })
}

/// Known from the build: `build.rs` looked into the SDK.
const SDK_HAS_CUDA: bool = cfg!(torchlean_cuda_sdk);

/// How many CUDA devices libtorch sees; zero on the host's SDK.
///
/// # Errors
/// [`Error::NotLinked`]; a failing driver call.
pub fn visible_cuda_devices() -> Result<usize> {
    sys::cuda_device_count()
}

/// Whether buffers can be made, and if not, whether the build or the machine is the reason.
///
/// ```
/// use torchlean::{RuntimeStatus, runtime_status};
/// if runtime_status() == RuntimeStatus::NativeUnavailable {
///     eprintln!("{}", torchlean::device_kind().unwrap_err());
/// }
/// ```
pub fn runtime_status() -> RuntimeStatus {
    match device_kind() {
        Ok(_) => RuntimeStatus::NativeAvailable,
        Err(Error::NotLinked) => RuntimeStatus::NotLinked,
        Err(_) => RuntimeStatus::NativeUnavailable,
    }
}

/// The selected device.
///
/// The choice is made at the first call in the process and holds to its end, whatever the variable becomes later.
///
/// # Errors
/// [`Error::NotLinked`], or [`Error::Unavailable`] with the reason.
pub fn device_kind() -> Result<DeviceKind> {
    if cfg!(not(feature = "libtorch")) {
        return Err(Error::NotLinked);
    }
    Ok(selection().device.clone()?)
}

/// Succeeds where libtorch is linked and a device is selected; returns the device.
///
/// # Errors
/// As [`device_kind`].
pub fn require_native_runtime() -> Result<DeviceKind> {
    device_kind()
}

/// Succeeds where a device is selected and it is CUDA.
///
/// # Errors
/// As [`device_kind`]; [`Error::CudaRequired`] on the host, saying why the host was selected.
pub fn require_cuda_device() -> Result<()> {
    require_cuda("this program")
}

/// What an entry point without a host implementation calls first.
///
/// # Errors
/// As [`require_cuda_device`]; the error names the feature.
///
/// ```
/// # if torchlean::device_kind().is_ok_and(|kind| kind == torchlean::DeviceKind::Host) {
/// let error = torchlean::require_cuda("set_memory_fraction").unwrap_err();
/// assert!(error.to_string().starts_with("set_memory_fraction needs a CUDA device: "));
/// # }
/// ```
pub fn require_cuda(feature: &'static str) -> Result<()> {
    match device_kind() {
        Ok(DeviceKind::Cuda) => Ok(()),
        Ok(DeviceKind::Host) => {
            let reason = if selection().variable.as_deref() == Some(OsStr::new("cpu")) {
                format!("{DEVICE_VARIABLE}=cpu selected the host; unset it or set it to `cuda`")
            } else {
                "the libtorch SDK of this build has no CUDA; build against one that has".to_owned()
            };
            Err(Error::CudaRequired { feature, reason })
        }
        Err(Error::Unavailable(refusal)) => Err(Error::CudaRequired {
            feature,
            reason: refusal.to_string(),
        }),
        Err(other) => Err(other),
    }
}

/// Whether buffers live on the host.
pub(crate) fn on_host() -> bool {
    cfg!(feature = "libtorch") && selection().device == Ok(DeviceKind::Host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sdk_that_got_cuda_after_the_build_is_refused() -> std::io::Result<()> {
        let sdk = tempfile::tempdir()?;
        let root = sdk.path().to_string_lossy().into_owned();
        std::fs::create_dir(sdk.path().join("lib"))?;
        assert_eq!(still_without_cuda(&root), Ok(()));
        std::fs::write(sdk.path().join("lib/libtorch_cuda.so"), "")?;
        let refused = still_without_cuda(&root);
        assert_eq!(refused, Err(Refusal::StaleBuild { root }));
        Ok(())
    }

    /// Every row of the table in the contract, and the spellings that look like a device and are none.
    #[test]
    fn the_selection_table() {
        use DeviceKind::{Cuda, Host};
        let unknown = |value: &str| {
            Err(Refusal::UnknownDevice {
                value: value.to_owned(),
            })
        };
        type Row<'a> = (Option<&'a str>, [Result<DeviceKind, Refusal>; 3]);
        let rows: [Row<'_>; 9] = [
            (None, [Ok(Cuda), Err(Refusal::NoVisibleDevice), Ok(Host)]),
            (
                Some(""),
                [Ok(Cuda), Err(Refusal::NoVisibleDevice), Ok(Host)],
            ),
            (Some("cpu"), [Ok(Host), Ok(Host), Ok(Host)]),
            (
                Some("cuda"),
                [
                    Ok(Cuda),
                    Err(Refusal::NoVisibleDevice),
                    Err(Refusal::SdkWithoutCuda),
                ],
            ),
            (
                Some("gpu"),
                [unknown("gpu"), unknown("gpu"), unknown("gpu")],
            ),
            (
                Some("CPU"),
                [unknown("CPU"), unknown("CPU"), unknown("CPU")],
            ),
            (
                Some("cuda:0"),
                [unknown("cuda:0"), unknown("cuda:0"), unknown("cuda:0")],
            ),
            (
                Some(" cpu"),
                [unknown(" cpu"), unknown(" cpu"), unknown(" cpu")],
            ),
            (Some("0"), [unknown("0"), unknown("0"), unknown("0")]),
        ];
        for (variable, expected) in rows {
            let got = [(true, 2), (true, 0), (false, 0)]
                .map(|(has_cuda, visible)| select(variable.map(OsStr::new), has_cuda, visible));
            assert_eq!(got, expected, "{variable:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_value_and_the_two_that_are_allowed() {
        let text = select(Some(OsStr::new("gpu")), true, 1)
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "TORCHLEAN_LIBTORCH_DEVICE is `gpu`; allowed are `cpu` and `cuda`, or unset it"
        );
    }
}
