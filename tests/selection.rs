//! The process-wide choice of a device: this binary runs itself once per environment.
//!
//! The same rows hold in each of the three builds (CPU SDK, CUDA SDK, without libtorch); what they expect follows from
//! the build and the number of visible devices.

mod common;

use std::process::{Command, Output};

use torchlean::{
    Buffer, DeviceKind, Error, device_kind, require_cuda, require_cuda_device, runtime,
    runtime_status,
};

const CHILD: &str = "TORCHLEAN_TEST_CHILD";

/// The child: what the process sees, and whether the requirements hold.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return; // run by the parent alone
    }
    println!("status={:?}", runtime_status());
    match device_kind() {
        Ok(kind) => {
            println!("device={kind}");
            // A buffer is born there, and the choice outlives a change of the variable.
            // SAFETY: the child runs this test alone, on one thread.
            unsafe { std::env::set_var(runtime::DEVICE_VARIABLE, "nonsense") };
            assert_eq!(Buffer::zeros(&[3]).unwrap().device_kind(), kind);
            // SAFETY: as above.
            unsafe { std::env::remove_var(runtime::DEVICE_VARIABLE) };
        }
        Err(error) => {
            println!("error={error}");
            let refused = Buffer::zeros(&[3]).unwrap_err();
            assert_eq!(refused.to_string(), error.to_string());
        }
    }
    println!(
        "require_cuda={}",
        require_cuda("the feature").map_or_else(|error| error.to_string(), |()| "ok".into())
    );
    assert_eq!(
        require_cuda_device().is_ok(),
        require_cuda("the feature").is_ok()
    );
}

/// The child as a suite: where a requirement is not met, it fails.
#[test]
fn suite() {
    if std::env::var_os(CHILD).is_some() {
        println!("session={:?}", common::session());
    }
}

fn run(test: &str, variable: Option<&str>, requirement: Option<&str>) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1");
    // Only ours: the library path stays.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TORCHLEAN_") && name != CHILD {
            command.env_remove(name);
        }
    }
    if let Some(value) = variable {
        command.env(runtime::DEVICE_VARIABLE, value);
    }
    if let Some(name) = requirement {
        command.env(name, "1");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

/// What the contract says for this build and machine.
fn expected(variable: Option<&str>) -> Result<DeviceKind, &'static str> {
    if cfg!(not(feature = "libtorch")) {
        return Err("built without libtorch");
    }
    let cuda_sdk = cfg!(torchlean_cuda_sdk);
    let visible = runtime::visible_cuda_devices().unwrap() > 0;
    match variable {
        Some("cpu") => Ok(DeviceKind::Host),
        None | Some("" | "cuda") if cuda_sdk && visible => Ok(DeviceKind::Cuda),
        None | Some("" | "cuda") if cuda_sdk => Err("no CUDA device is visible"),
        None | Some("") => Ok(DeviceKind::Host),
        Some("cuda") => Err("the libtorch SDK of this build has no CUDA"),
        Some(_) => Err("allowed are `cpu` and `cuda`"),
    }
}

const VARIABLES: [Option<&str>; 6] = [
    None,
    Some(""),
    Some("cpu"),
    Some("cuda"),
    Some("gpu"),
    Some("CPU"),
];

#[test]
fn every_variable_selects_what_the_contract_says() {
    for variable in VARIABLES {
        let (output, text) = run("child", variable, None);
        assert!(output.status.success(), "{variable:?}: {text}");
        match expected(variable) {
            Ok(kind) => {
                assert!(
                    text.contains("status=NativeAvailable"),
                    "{variable:?}: {text}"
                );
                assert!(
                    text.contains(&format!("device={kind}")),
                    "{variable:?}: {text}"
                );
                let cuda = if kind == DeviceKind::Cuda {
                    "require_cuda=ok"
                } else {
                    "require_cuda=the feature needs"
                };
                assert!(text.contains(cuda), "{variable:?}: {text}");
            }
            Err(reason) => {
                let unlinked = matches!(device_kind(), Err(Error::NotLinked));
                let status = if unlinked {
                    "status=NotLinked"
                } else {
                    "status=NativeUnavailable"
                };
                assert!(
                    text.contains(status) && text.contains(reason),
                    "{variable:?}: {text}"
                );
                if let Some(value @ ("gpu" | "CPU")) = variable.filter(|_| !unlinked) {
                    assert!(text.contains(&format!("is `{value}`")), "{text}");
                }
            }
        }
    }
}

#[test]
fn a_requirement_that_is_not_met_fails_the_suite() {
    for variable in VARIABLES {
        for requirement in [
            None,
            Some("TORCHLEAN_REQUIRE_NATIVE"),
            Some("TORCHLEAN_REQUIRE_CUDA"),
        ] {
            let (output, text) = run("suite", variable, requirement);
            let passes = match (requirement, expected(variable)) {
                _ if cfg!(feature = "cuda") => expected(variable) == Ok(DeviceKind::Cuda),
                (None, _) => true,
                (Some("TORCHLEAN_REQUIRE_CUDA"), device) => device == Ok(DeviceKind::Cuda),
                (Some(_), device) => device.is_ok(),
            };
            assert_eq!(
                output.status.success(),
                passes,
                "{variable:?}, {requirement:?}: {text}"
            );
            if let (false, Err(reason)) = (passes, expected(variable)) {
                assert!(
                    text.contains(reason),
                    "{variable:?}, {requirement:?}: {text}"
                );
            }
        }
    }
}

/// `torchlean-doctor` ends with 0 exactly where buffers can be made, and says the same as JSON.
#[test]
fn the_doctor_says_what_a_process_would_get() {
    let built = std::path::Path::new(env!("CARGO_BIN_EXE_torchlean-doctor"));
    let beside = std::env::current_exe()
        .unwrap()
        .with_file_name("torchlean-doctor");
    let doctor = if built.exists() { built } else { &beside }; // the binaries may have been moved together
    for variable in VARIABLES {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(doctor);
            command.args(arguments).env_remove(runtime::DEVICE_VARIABLE);
            command.envs(variable.map(|value| (runtime::DEVICE_VARIABLE, value)));
            command.output().unwrap()
        };
        let (text, json) = (run(&[]), run(&["--json"]));
        let expected = expected(variable);
        assert_eq!(text.status.success(), expected.is_ok(), "{variable:?}");
        assert_eq!(json.status.success(), expected.is_ok(), "{variable:?}");
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        match expected {
            Ok(kind) => {
                assert!(text.contains(&format!("selected   {kind}")), "{text}");
                assert_eq!(json["device"], kind.to_string());
            }
            Err(reason) => {
                assert!(text.contains(reason), "{text}");
                assert_eq!(json["buffers"], false);
            }
        }
        assert_eq!(run(&["--help-me"]).status.code(), Some(2));
    }
}
